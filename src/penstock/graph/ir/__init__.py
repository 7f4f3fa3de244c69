"""Nodes, operators and their argument schema: the immutable graph."""
