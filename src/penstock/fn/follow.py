"""What follows images: boxes, points and masks go where an image's pixels went."""

from penstock.graph.tracing.registry import lazy_module

__getattr__, __dir__ = lazy_module(__name__)
