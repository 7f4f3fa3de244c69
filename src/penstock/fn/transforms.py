"""Operators that make affine transforms: matrices with n rows and n + 1 columns."""

from penstock.graph.tracing.registry import lazy_module as _lazy_module

__getattr__, __dir__ = _lazy_module(__name__)
