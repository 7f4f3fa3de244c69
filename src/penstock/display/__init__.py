"""Displays of data in notebooks and on pages: pixels of samples, inline images, tables."""
