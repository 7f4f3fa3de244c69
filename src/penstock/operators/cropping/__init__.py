"""Operators that cut, paste, pad, flip and erase regions of images."""
