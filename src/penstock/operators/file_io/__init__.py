"""Operators that read and write files while the pipeline runs."""
