"""Operators that decode files."""

from penstock.graph.registry import missing
from penstock.ops.decoders_image import image as image

__getattr__ = missing(__name__)
