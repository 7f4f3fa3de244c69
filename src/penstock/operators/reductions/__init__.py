"""Operators that reduce values along axes."""
