"""Uses of the operators that put images on a canvas, and values into images."""

import numpy as np

from penstock import fn
from penstock.testing import OperatorCase

IMAGES = np.arange(4 * 5 * 6 * 3, dtype=np.uint8).reshape(4, 5, 6, 3)
RATIOS = np.float32([1, 1.3, 2, 2.7])
ANCHORS = np.float32([[0, 0.5, 0.5, 0.1], [0.9, 0.9, -0.2, 0.3], [0, 0, 0, 0], [0.25, 0.3, 0.6, 0.8]])
PLACES = np.float32([0, 0.3, 1, 0.5])

CASES = {
    "paste": [
        OperatorCase(lambda x: fn.paste(x, ratio=1.5, fill_value=[1, 2, 3], paste_x=0.2), [IMAGES], ("HWC",)),
        OperatorCase(
            lambda x, r, p: fn.paste(x, ratio=r, fill_value=7, paste_y=p, min_canvas_size=9),
            [IMAGES, RATIOS, PLACES],
            ("HWC", "", ""),
        ),
        OperatorCase(
            lambda x: fn.paste(fn.flip(x), ratio=2, fill_value=9), [[IMAGES[0], IMAGES[1, :3], *IMAGES[2:]]], ("HWC",)
        ),
    ],
    "erase": [
        OperatorCase(lambda x: fn.erase(x, anchor=[1, 2], shape=[2.7, 3], fill_value=[9, 8, 7]), [IMAGES], ("HWC",)),
        OperatorCase(
            lambda x, a, f: fn.erase(x, anchor=a, shape=a, fill_value=f, axis_names="WH", normalized=True),
            [IMAGES, ANCHORS, RATIOS * 3.5],
            ("HWC", "", ""),
        ),
        OperatorCase(
            lambda x: fn.erase(fn.flip(x), shape=[1.5], axes=[0], centered_anchor=True, anchor=[2], fill_value=-1),
            [[IMAGES[0], IMAGES[1, :3], *IMAGES[2:]]],
            ("HWC",),
        ),
        OperatorCase(lambda x: fn.erase(x), [IMAGES.astype(np.float32)], ("HWC",)),
    ],
}

IDS = np.int32([[0, 1], [3, 2], [1, 0], [2, 2]])
CORNERS = np.int32([[[0, 0], [2, 3]], [[1, 1], [0, 0]], [[2, 0], [0, 1]], [[0, 2], [2, 2]]])
PARTS = np.float32([[[0.3, 0.4], [0.05, 0.1]], [[0.25, 0.32], [0, 0.5]], [[0.1, 0.07], [0.3, 0]], [[0, 0], [0.2, 0.3]]])

CASES["multi_paste"] = [
    OperatorCase(
        lambda x, y, c: fn.multi_paste(x, y, out_anchors=c, shapes=[[2, 3], [3, 1]], output_size=(6, 7)),
        [IMAGES, IMAGES[::-1].copy(), CORNERS],
        ("HWC", "HWC", ""),
    ),
    OperatorCase(
        lambda x, p: fn.multi_paste(x, fn.flip(x), in_anchors_rel=p, shapes_rel=p, dtype=np.float32),
        [np.stack([IMAGES, IMAGES + 1], axis=1), PARTS],
        ("FHWC", ""),
    ),
    OperatorCase(
        lambda x, i, c: fn.multi_paste(x, in_ids=i, out_anchors=c, in_anchors=c, output_size=(7, 9)),
        [[IMAGES[0], IMAGES[1, :4], *IMAGES[2:]], IDS, CORNERS],
        ("HWC", "", ""),
        mixes=True,
    ),
]

CASES["fast_resize_crop_mirror"] = [
    OperatorCase(
        lambda x: fn.fast_resize_crop_mirror(x, size=(3, 4), crop=(2, 3), mirror=1), [IMAGES], ("HWC",), rounds=True
    )
]
