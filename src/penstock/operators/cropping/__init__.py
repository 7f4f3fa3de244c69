"""Operators that crop, slice, pad, paste, flip, and erase images and other arrays."""
