"""Uses of the operators that put images on a canvas."""

import numpy as np

from penstock import fn
from penstock.testing import OperatorCase

IMAGES = np.arange(4 * 5 * 6 * 3, dtype=np.uint8).reshape(4, 5, 6, 3)
RATIOS = np.float32([1, 1.3, 2, 2.7])
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
}
