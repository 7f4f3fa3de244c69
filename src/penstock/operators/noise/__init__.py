"""Operators that add noise to images, or to any other values."""
