"""Operators on masks of segmentations."""

from penstock.graph.tracing.registry import offer

__getattr__, __dir__ = offer(__name__)
