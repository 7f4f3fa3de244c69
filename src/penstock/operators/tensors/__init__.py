"""Operators on the shape, layout and order of tensors: reshape, indexing, concatenation, permutation."""
