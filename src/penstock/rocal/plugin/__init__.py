"""rocAL's framework plugins: JAX."""
