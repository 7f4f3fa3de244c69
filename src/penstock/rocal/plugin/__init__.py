"""Framework plugins of rocAL. Only the one for JAX is supported."""
