"""Operators that take what the user's program gives."""
