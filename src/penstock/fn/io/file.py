"""Operators that read files by name."""

from penstock.graph.registry import offer

__getattr__, __dir__ = offer(__name__)
