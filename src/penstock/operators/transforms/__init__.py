"""Operators that create and combine affine transforms, matrices of n rows and n + 1 columns."""
