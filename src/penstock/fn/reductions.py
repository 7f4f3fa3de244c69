"""Operators that reduce values along axes."""

from penstock.graph.registry import offer

__getattr__, __dir__ = offer(__name__)
