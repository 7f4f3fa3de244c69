"""Uses of the operators that follow images."""

import numpy as np

from penstock import fn
from penstock.testing import OperatorCase

IMAGES = np.arange(4 * 12 * 10 * 3, dtype=np.uint16).astype(np.uint8).reshape(4, 12, 10, 3)
RAGGED = [IMAGES[0], IMAGES[1, :9], IMAGES[2, :, :7], IMAGES[3]]
BOXES = np.float32([[[1, 2, 5, 6], [0, 0, 9, 11], [6, 7, 8, 9]]] * 4)
FEWER = [each[:n] for n, each in enumerate(BOXES)]
LABELS = [np.arange(n, dtype=np.int32) for n in range(4)]
FLAGS = np.int32([0, 1, 1, 0])
ANGLES = np.float32([0, 10, -30, 90])


def gone(images, flags, angles):
    """Images on which most of what can be followed was done."""
    images = fn.flip(fn.resize(images, size=(20, 16)), horizontal=flags)
    return fn.crop(fn.rotate(images, angle=angles, fill_value=0, keep_size=True), crop=(15, 12))


NAMES = ("HWC", "", "")

CASES = {
    "follow.boxes": [
        OperatorCase(
            lambda x, f, a, b: fn.follow.boxes(b, gone(x, f, a), ltrb=True, min_visible=0.2),
            [IMAGES, FLAGS, ANGLES, BOXES],
            (*NAMES, ""),
            full_scale=20,
            ragged=False,
        ),
        OperatorCase(
            lambda x, f, a, b, n: fn.follow.boxes(b, gone(x, f, a), n, ratio=True, max_boxes=2),
            [RAGGED, FLAGS, ANGLES, [each / 12 for each in FEWER], LABELS],
            (*NAMES, "", ""),
        ),
    ],
    "follow.points": [
        OperatorCase(
            lambda x, f, a, p: fn.follow.points(p, gone(x, f, a)),
            [IMAGES, FLAGS, ANGLES, BOXES[:, :, :3]],
            (*NAMES, ""),
            full_scale=20,
            ragged=False,
        ),
        OperatorCase(
            lambda x, f, a, p: fn.follow.points(p, gone(x, f, a), ratio=True),
            [RAGGED, FLAGS, ANGLES, [each / 12 for each in FEWER]],
            (*NAMES, ""),
        ),
    ],
    "follow.masks": [
        OperatorCase(
            lambda x, f, a, m: fn.follow.masks(m, gone(x, f, a), fill_value=255),
            [IMAGES, FLAGS, ANGLES * 0, IMAGES[..., 0]],
            (*NAMES, "HW"),
        ),
        OperatorCase(
            lambda x, f, a, m: (gone(x, f, a), fn.follow.masks(m, gone(x, f, a))),
            [RAGGED, FLAGS, ANGLES, RAGGED],
            (*NAMES, "HWC"),
        ),
    ],
}
