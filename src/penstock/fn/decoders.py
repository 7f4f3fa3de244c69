"""Operators that decode files."""

from penstock.graph.registry import missing
from penstock.ops.decoders_image import image as image
from penstock.ops.decoders_image_crop import image_crop as image_crop
from penstock.ops.decoders_image_random_crop import image_random_crop as image_random_crop

__getattr__ = missing(__name__)
