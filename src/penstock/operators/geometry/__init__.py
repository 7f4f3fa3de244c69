"""Geometry: where pixels go."""
