"""What rocAL has for frameworks; here for JAX."""
