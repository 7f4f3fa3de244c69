"""Functions, iterables and arrays of the user, called here or in worker processes, and batches fed by hand."""
