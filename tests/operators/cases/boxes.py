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
    "random_bbox_crop": [
        OperatorCase(lambda b: fn.random_bbox_crop(b, scaling=[0.3, 1.0], thresholds=[0.1, 0.3]), [BOXES]),
        OperatorCase(
            lambda b, i: fn.random_bbox_crop(
                b, i, scaling=[0.5, 0.9], aspect_ratio=[0.5, 2.0], total_num_attempts=20, output_bbox_indices=True
            ),
            [RAGGED, [np.arange(len(each), dtype=np.int32) for each in RAGGED]],
        ),
        OperatorCase(
            lambda b: fn.random_bbox_crop(b, crop_shape=[30, 20], input_shape=[50, 60], shape_layout="HW", seed=3),
            [BOXES],
        ),
    ],
    "box_encoder": [
        OperatorCase(
            lambda b, n: fn.box_encoder(b, n, anchors=BOXES[0].ravel().tolist(), criteria=0.3),
            [RAGGED, [np.arange(1, len(each) + 1, dtype=np.int32) for each in RAGGED]],
        ),
        OperatorCase(
            lambda b, n: fn.box_encoder(b, n, anchors=BOXES[0], offset=True, stds=[0.1, 0.1, 0.2, 0.2]),
            [BOXES, np.arange(20, dtype=np.int32).reshape(4, 5)],
            ragged=False,
        ),
    ],
    "roi_random_crop": [
        OperatorCase(lambda: fn.roi_random_crop(crop_shape=[10, 4], roi_start=[3, 3], roi_end=[9, 9])),
        OperatorCase(
            lambda s: fn.roi_random_crop(crop_shape=[3, 4], roi_start=s, roi_shape=[2, 9], in_shape=[20, 20]),
            [np.int32([[0, 1], [18, 2], [5, 5], [17, 11]])],
            ragged=False,
        ),
        OperatorCase(lambda p: fn.roi_random_crop(p, crop_shape=4, roi_start=1, roi_shape=2), [POINTS]),
    ],
    "random_crop_generator": [
        OperatorCase(
            lambda s: fn.random_crop_generator(s), [np.int32([[20, 30, 3], [5, 5, 1], [1, 1, 3], [9, 90, 3]])]
        ),
        OperatorCase(lambda s: fn.random_crop_generator(s, random_area=[0.1, 0.2], seed=4), [np.int64([[20, 30]] * 4)]),
    ],
}

TURNED = np.float32([[0.1, 0.2, 0.4, 0.6], [0.5, 0.5, 0.9, 0.7], [0, 0, 0.2, 0.1]])
CASES["bbox_rotate"] = [
    OperatorCase(
        lambda x, n, a: fn.bbox_rotate(x, n, angle=a, input_shape=[40, 60], keep_size=True, remove_threshold=0.7),
        [np.stack([TURNED] * 4), np.arange(12).reshape(4, 3), np.float32([0, 30, 45, -100])],
    )
]
CASES["ssd_random_crop"] = [
    OperatorCase(
        lambda x, b, n: fn.ssd_random_crop(x, b, n, seed=2),
        [np.arange(4 * 20 * 30 * 3, dtype=np.uint16).reshape(4, 20, 30, 3), [TURNED] * 4, [np.arange(3)] * 4],
        ("HWC", "", ""),
    )
]
