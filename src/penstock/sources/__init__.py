"""Sources of samples, their specs, and the order in which they are read. Knows nothing of graphs or of JAX."""
