"""Uses of the operators on boxes and points."""

import numpy as np

from penstock import fn, types
from penstock.testing import OperatorCase

RNG = np.random.default_rng(3)


def boxes(count):
    """Boxes inside of an image, left, top, right, bottom."""
    low = RNG.uniform(0, 0.6, (count, 2))
    return np.concatenate([low, low + RNG.uniform(0.1, 0.4, (count, 2))], axis=1).astype(np.float32)


BOXES = np.stack([boxes(5) for _ in range(4)])
RAGGED = [boxes(3), boxes(1), boxes(0), boxes(7)]
FLAGS = np.int32([1, 0, 2, 1])
RATIOS = np.float32([1, 1.5, 2, 4])
POINTS = RNG.normal(size=(4, 6, 3)).astype(np.float32)
MATRICES = RNG.normal(size=(4, 2, 3)).astype(np.float32)

CASES = {
    "bb_flip": [
        OperatorCase(lambda b: fn.bb_flip(b), [BOXES]),
        OperatorCase(lambda b, f: fn.bb_flip(b, horizontal=f, vertical=1, ltrb=True), [RAGGED, FLAGS]),
        OperatorCase(lambda b: fn.bb_flip(b, horizontal=0, vertical=1), [BOXES.reshape(4, 20)], ragged=False),
    ],
    "bbox_paste": [
        OperatorCase(lambda b, r: fn.bbox_paste(b, ratio=r, paste_x=0.2), [BOXES, RATIOS], ("", "")),
        OperatorCase(lambda b: fn.bbox_paste(b, ratio=2, paste_y=1, ltrb=True), [RAGGED]),
    ],
    "coord_flip": [
        OperatorCase(lambda p: fn.coord_flip(p, flip_z=1, center_x=3), [POINTS], full_scale=6, ragged=False),
        OperatorCase(lambda b, f: fn.coord_flip(b[:, :2], flip_y=f, layout="yx"), [BOXES, FLAGS], ragged=False),
    ],
    "coord_transform": [
        OperatorCase(lambda p: fn.coord_transform(p), [POINTS], full_scale=4, ragged=False),
        OperatorCase(
            lambda p, m: fn.coord_transform(p, M=m, T=[1, 2]), [POINTS, MATRICES], full_scale=10, ragged=False
        ),
        OperatorCase(lambda p, m: fn.coord_transform(p[:, :2], MT=m), [POINTS, MATRICES], full_scale=10, ragged=False),
        OperatorCase(
            lambda p: fn.coord_transform(fn.cast(p * 100, dtype=types.INT16), M=0.7, T=3, dtype=types.INT16),
            [POINTS],
            ragged=False,
            rounds=True,
        ),
    ],
}
