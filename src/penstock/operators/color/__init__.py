"""Operators that change colors, brightness and contrast."""
