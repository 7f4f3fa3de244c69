"""Uses of operators that resize tensors which are no images."""

import numpy as np

from penstock import fn, types
from penstock.testing import OperatorCase

RNG = np.random.default_rng(32)
BLOCKS = RNG.integers(-999, 999, (4, 3, 4, 5), np.int16)
SIZES = np.float32([[3.4, 0], [4, 2.6], [-5, 1], [2, 9]])

CASES = {
    "tensor_resize": [
        OperatorCase(
            lambda x: fn.tensor_resize(x, scales=[0.7, 2], axes=[0, 2], alignment=0, dtype=types.FLOAT),
            [BLOCKS],
            full_scale=999.0,
        ),
        OperatorCase(
            lambda x, s: fn.tensor_resize(x, sizes=s, axes=[-1, -2], alignment=0.2, mode="not_larger"),
            [BLOCKS, SIZES],
            ("HWC", ""),
            rounds=True,
        ),
        OperatorCase(
            lambda x: fn.tensor_resize(x, scales=1.3, axis_names="W", size_rounding="ceil"),
            [BLOCKS[..., 0].astype(np.float32)],
            ("WC",),
            full_scale=999.0,
        ),
    ],
}
