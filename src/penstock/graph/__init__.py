"""Definitions: tracing them, and the graph that results."""
