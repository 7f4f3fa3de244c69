"""Operators that make and combine affine maps: matrices of n rows and n + 1 columns."""
