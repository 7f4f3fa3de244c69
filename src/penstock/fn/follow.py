"""What follows images: boxes, points and masks go where an image's pixels went."""

from penstock.graph.tracing.registry import offer

__getattr__, __dir__ = offer(__name__)
