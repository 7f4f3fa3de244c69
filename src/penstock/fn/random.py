"""Operators that draw random numbers."""

from penstock.graph.registry import offer

__getattr__, __dir__ = offer(__name__)
