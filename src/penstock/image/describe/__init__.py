"""Descriptions of the work on images: numbers, no pixels."""
