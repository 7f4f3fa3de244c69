"""What follows images: boxes, points and masks go where an image's pixels went."""

from penstock.graph.registry import missing
from penstock.operators.follow.boxes import boxes as boxes
from penstock.operators.follow.masks import masks as masks
from penstock.operators.follow.points import points as points

__getattr__ = missing(__name__)
