"""Tracing: recording a definition as a graph."""
