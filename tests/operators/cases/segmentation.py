"""Uses of the operators on masks."""

import numpy as np

from penstock import fn
from penstock.testing import OperatorCase

RNG = np.random.default_rng(12)
MAPS = (RNG.integers(0, 4, (4, 7, 9)) * (RNG.random((4, 7, 9)) < 0.6)).astype(np.uint8)
RAGGED = [MAPS[0], MAPS[1, :3], MAPS[2] * 0, MAPS[3, :, 2:]]
FLAGS = np.int32([1, 0, 1, 1])
POLYGONS = [np.int32([[0, 0, 3], [1, 3, 7], [0, 7, 10]]) for _ in range(4)]
VERTICES = [RNG.random((10, 2)).astype(np.float32) for _ in range(4)]
MASKS = [np.int32([1]), np.int32([0, 1]), np.int32([]), np.int32([0])]

CASES = {
    "segmentation.random_object_bbox": [
        OperatorCase(lambda m: fn.segmentation.random_object_bbox(m, foreground_prob=0.8), [RAGGED]),
        OperatorCase(
            lambda m: fn.segmentation.random_object_bbox(
                m, format="box", classes=[2, 1], class_weights=[1, 3], k_largest=2, output_class=True
            ),
            [MAPS],
        ),
        OperatorCase(
            lambda m: fn.segmentation.random_object_bbox(m, format="start_end", threshold=2, ignore_class=True), [MAPS]
        ),
    ],
    "segmentation.random_mask_pixel": [
        OperatorCase(lambda m, f: fn.segmentation.random_mask_pixel(m, foreground=f), [RAGGED, FLAGS]),
        OperatorCase(lambda m, v: fn.segmentation.random_mask_pixel(m, foreground=1, value=v), [MAPS, FLAGS]),
    ],
    "segmentation.select_masks": [
        OperatorCase(lambda i, p, v: fn.segmentation.select_masks(i, p, v), [MASKS, POLYGONS, VERTICES]),
        OperatorCase(
            lambda i, p, v: fn.segmentation.select_masks(i, p, v, reindex_masks=True), [MASKS, POLYGONS, VERTICES]
        ),
    ],
}
