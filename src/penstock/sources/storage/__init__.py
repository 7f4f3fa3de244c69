"""Data sets in object stores: what is asked of a store, what is fetched ahead, what is kept on a local disk."""
