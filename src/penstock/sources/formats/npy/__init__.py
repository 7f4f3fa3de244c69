"""NumPy files, and regions of them."""
