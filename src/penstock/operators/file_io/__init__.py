"""Operators that read and write files by name, and decode what is no image and no sound."""
