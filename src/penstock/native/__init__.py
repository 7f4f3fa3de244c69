"""Python functions as machine code: compiled once by numba, kept on disk. Knows nothing of data, images or JAX."""
