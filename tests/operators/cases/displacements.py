"""Uses of the operators that move each pixel by itself, or cover some."""

import numpy as np

from penstock import fn, types
from penstock.testing import OperatorCase

IMAGES = np.linspace(0, 250, 4 * 6 * 7 * 3).reshape(4, 6, 7, 3).astype(np.uint8)
RAGGED = [IMAGES[0], IMAGES[1, :3], *IMAGES[2:]]
MASK = np.int32([1, 0, 1, 0])
TILES, SHIFTS = np.int32([1, 2, 3, 100]), np.float32([0, 1.5, -2, 7])
SQUARE = [0.9, -0.2, 1.3, 0.1, 1.1, -0.7, 0.01, 0.02, 1]
MATRICES = np.float32([SQUARE, np.eye(3).ravel(), [0, 1, 0.2, 1, 0, 0.3, 0, 0, 1], [2, 0, 0, 0, 2, 0, 0.1, 0, 1]])
LINEAR = types.INTERP_LINEAR

CASES = {
    "water": [
        OperatorCase(lambda x: fn.water(x, ampl_x=2, freq_y=1, fill_value=7), [IMAGES], ("HWC",)),
        OperatorCase(
            lambda x, m: fn.water(fn.flip(x), mask=m, interp_type=LINEAR, ampl_y=1),
            [RAGGED, MASK],
            ("HWC", ""),
            rounds=True,
        ),
    ],
    "sphere": [
        OperatorCase(lambda x, m: fn.sphere(x, mask=m, interp_type=LINEAR), [IMAGES, MASK], ("HWC", ""), rounds=True),
        OperatorCase(lambda x: fn.sphere(x, fill_value=3), [RAGGED], ("HWC",)),
    ],
    "jitter": [
        OperatorCase(lambda x: fn.jitter(x, nDegree=4, seed=3), [IMAGES], ("HWC",)),
        OperatorCase(lambda x, m: fn.jitter(fn.flip(x), mask=m, fill_value=9, seed=1), [RAGGED, MASK], ("HWC", "")),
    ],
    "grid_mask": [
        OperatorCase(
            lambda x, t, s: fn.grid_mask(fn.flip(x), tile=t, ratio=0.4, shift_x=s, shift_y=1),
            [IMAGES, TILES, SHIFTS],
            ("HWC", "", ""),
        ),
        OperatorCase(lambda x: fn.grid_mask(x, tile=3, angle=0.3), [[x.astype(np.int16) for x in RAGGED]], ("HWC",)),
    ],
    "warp_perspective": [
        OperatorCase(
            lambda x, m: fn.warp_perspective(x, m, size=(5, 9), fill_value=[1, 2, 3]),
            [IMAGES, MATRICES],
            ("HWC", ""),
            rounds=True,
        ),
        OperatorCase(
            lambda x, m: fn.warp_perspective(
                fn.flip(x), matrix=m, pixel_origin="center", inverse_map=False, border_mode="reflect_101"
            ),
            [RAGGED, MATRICES],
            ("HWC", ""),
            rounds=True,
        ),
        OperatorCase(
            lambda x, m: fn.warp_perspective(x, m, interp_type=types.INTERP_CUBIC, border_mode="reflect"),
            [RAGGED, MATRICES],
            ("HWC", ""),
            rounds=True,
        ),
        *(
            OperatorCase(
                lambda x, border=border: fn.warp_perspective(x, matrix=SQUARE, border_mode=border),
                [np.float32(IMAGES)],
                ("HWC",),
                full_scale=255.0,
            )
            for border in ("replicate", "reflect", "wrap")
        ),
    ],
}

RNG = np.random.default_rng(2)
X, Y = RNG.uniform(-1, 8, (2, 4, 5, 3)).astype(np.float32)
CASES["remap"] = [
    OperatorCase(fn.remap, [IMAGES, X, Y], ("HWC", "", ""), rounds=True),
    OperatorCase(
        lambda x, a, b: fn.remap(x, a, b, interp=types.INTERP_CUBIC),
        [np.float32(IMAGES), X, Y],
        ("HWC", "", ""),
        full_scale=255.0,
    ),
    OperatorCase(lambda x, a, b: fn.remap(x, a, b, interp=types.INTERP_NN), [RAGGED, X, Y], ("HWC", "", "")),
]
