"""Operators that filter images: each pixel of the result depends on the neighborhood of a pixel."""
