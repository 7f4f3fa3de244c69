"""Uses of the operators that reduce axes."""

import numpy as np
from case_data import FLOATS, HWC, IMAGES, PLACES, RAGGED, SMOOTH

from penstock import fn, types
from penstock.testing import OperatorCase

CASES = {
    "reductions.max": [
        OperatorCase(lambda x: (fn.reductions.max(x), fn.reductions.max(x, axis_names="HW")), [IMAGES], HWC),
        OperatorCase(lambda x: fn.reductions.max(x, axes=-1, keep_dims=True), [RAGGED], HWC),
        OperatorCase(lambda x: fn.reductions.max(x), [np.float32([[1, np.nan], [np.inf, 3], [-np.inf] * 2, [5, 2]])]),
    ],
    "reductions.mean": [
        OperatorCase(lambda x: (fn.reductions.mean(x), fn.reductions.mean(x, axes=[0, 2])), [IMAGES], HWC),
        OperatorCase(lambda x: fn.reductions.mean(x, axes=1, keep_dims=True, dtype=types.UINT8), [RAGGED], HWC),
        OperatorCase(lambda x: fn.reductions.mean(x), [FLOATS]),
    ],
    "reductions.mean_square": [
        OperatorCase(lambda x: fn.reductions.mean_square(x, axes=[0, 1]), [IMAGES], HWC),
        OperatorCase(lambda x: fn.reductions.mean_square(x), [FLOATS]),
    ],
    "reductions.min": [
        OperatorCase(lambda x: (fn.reductions.min(x), fn.reductions.min(x, axes=0)), [IMAGES], HWC),
        OperatorCase(lambda x: fn.reductions.min(x, axis_names="WC"), [RAGGED], HWC),
    ],
    "reductions.rms": [
        OperatorCase(lambda x: fn.reductions.rms(x, axis_names="C"), [IMAGES], HWC),
        OperatorCase(lambda x: fn.reductions.rms(x, axes=0), [[FLOATS[0], FLOATS[1, :3], FLOATS[2], FLOATS[3]]]),
    ],
    "reductions.std_dev": [
        OperatorCase(
            lambda x: fn.reductions.std_dev(x, fn.reductions.mean(x, axes=[0, 1]), axes=[0, 1]), [IMAGES], HWC, 255
        ),
        OperatorCase(lambda x: fn.reductions.std_dev(x, 3.0, keep_dims=True, axes=0), [FLOATS]),
    ],
    "reductions.sum": [
        OperatorCase(lambda x: (fn.reductions.sum(x), fn.reductions.sum(x, axes=[])), [IMAGES], HWC),
        OperatorCase(lambda x: fn.reductions.sum(x, axis_names="HW", dtype=types.UINT32), [IMAGES], HWC),
        OperatorCase(lambda x: fn.reductions.sum(x, axes=[1, -1], dtype=types.UINT8), [RAGGED], HWC),
        OperatorCase(lambda x: fn.reductions.sum(x), [FLOATS]),
        OperatorCase(lambda x: fn.reductions.sum(x, axes=0, keep_dims=True), [SMOOTH], HWC),
    ],
    "reductions.variance": [
        OperatorCase(
            lambda x: fn.reductions.variance(x, fn.reductions.mean(x, axes=0), axes=0, ddof=1), [RAGGED], HWC, 255**2
        ),
        OperatorCase(lambda x, m: fn.reductions.variance(x, m), [FLOATS, PLACES]),
    ],
}
