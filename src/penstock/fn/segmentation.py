"""Operators on masks of segmentations."""

from penstock.graph.registry import missing
from penstock.operators.segmentation.random_mask_pixel import random_mask_pixel as random_mask_pixel
from penstock.operators.segmentation.random_object_bbox import random_object_bbox as random_object_bbox
from penstock.operators.segmentation.select_masks import select_masks as select_masks

__getattr__ = missing(__name__)
