"""Loops compiled once with numba, and loaded without it."""
