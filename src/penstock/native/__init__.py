"""Compiles marked Python functions to machine code with numba, once, and loads it without numba."""
