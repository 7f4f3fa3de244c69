"""Data formats: one module or folder each, with a `Source`."""
