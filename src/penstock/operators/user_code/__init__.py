"""Operators that call functions of the user: Python, numba, JAX."""
