"""Operators that apply the geometric history of images to their boxes, points, and masks."""
