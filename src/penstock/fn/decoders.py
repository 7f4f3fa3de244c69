"""Operators that decode files."""

from penstock.graph.tracing.registry import offer

__getattr__, __dir__ = offer(__name__)
