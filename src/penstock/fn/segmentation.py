"""Operators on segmentation masks."""

from penstock.graph.tracing.registry import lazy_module

__getattr__, __dir__ = lazy_module(__name__)
