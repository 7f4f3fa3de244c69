"""Colour: what becomes of the value of each pixel."""
