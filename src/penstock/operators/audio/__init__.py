"""Operators on sound, sample by sample on the host."""
