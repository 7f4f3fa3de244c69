"""Operators that resize images and tensors, optionally with a crop and a flip."""
