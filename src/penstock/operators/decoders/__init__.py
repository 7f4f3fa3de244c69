"""Operators that decode files: images, video, sound, and arrays."""
