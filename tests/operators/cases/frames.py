"""Uses of arguments with an entry per frame."""

import numpy as np

from penstock import fn
from penstock.testing import OperatorCase

VIDEOS = np.linspace(0, 250, 4 * 2 * 5 * 6 * 3).reshape(4, 2, 5, 6, 3).astype(np.uint8)
FACTORS = np.float32([[0.5, 1], [2, 0], [1, 1.5], [0.1, 3]])

CASES = {
    "per_frame": [
        OperatorCase(
            lambda x, f, s: fn.rotate(x, angle=fn.per_frame(f * 20), size=s, fill_value=1),
            [VIDEOS, FACTORS, np.full((4, 2), 6, np.float32)],
            ("FHWC", "", ""),
            rounds=True,
        ),
        OperatorCase(
            lambda x, f: fn.rotate(x, angle=fn.per_frame(f * 20)), [VIDEOS, FACTORS], ("FHWC", ""), rounds=True
        ),
        OperatorCase(
            lambda x, f: fn.brightness(x, brightness=fn.per_frame(f)), [VIDEOS, FACTORS], ("FHWC", ""), rounds=True
        ),
        OperatorCase(
            lambda m, f: fn.transforms.rotation(fn.per_frame(m), angle=fn.per_frame(f), center=[1, 2]),
            [np.linspace(0, 1, 4 * 2 * 6).reshape(4, 2, 2, 3).astype(np.float32), FACTORS],
        ),
    ],
}
