"""Threads that run the host part of a plan and write samples straight into batch buffers. Knows nothing of JAX."""
