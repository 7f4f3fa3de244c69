"""Compiled loops over pixels."""
