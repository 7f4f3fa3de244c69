"""Operators that decode files."""

from penstock.graph.tracing.registry import lazy_module as _lazy_module

__getattr__, __dir__ = _lazy_module(__name__)
