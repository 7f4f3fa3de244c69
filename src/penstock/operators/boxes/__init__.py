"""Operators on boxes and points: small arrays of coordinates, whose number differs from sample to sample."""
