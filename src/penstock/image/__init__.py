"""The image engine."""
