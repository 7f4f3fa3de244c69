"""Tensors: arithmetic, shapes, types, indexing."""
