"""Operators on masks of segmentations: maps of labels, and polygons."""
