"""Streams over functions, iterables and arrays of the user, in this process or in workers, and over fed batches."""
