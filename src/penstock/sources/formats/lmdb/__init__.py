"""LMDB databases: pages, records, and the source."""
