"""Operators that make affine maps, as matrices of n rows and n + 1 columns."""

from penstock.graph.tracing.registry import offer

__getattr__, __dir__ = offer(__name__)
