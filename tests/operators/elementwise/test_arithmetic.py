"""Arithmetic has the same values on the host and on devices."""

import numpy as np
import pytest
from pipeline_runs import run

from penstock import fn, types

SPECIAL = np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5])


def bits(values):
    """Return the bits of floats; all NaNs are alike."""
    return np.where(np.isnan(values), 1, values.view(f"u{values.dtype.itemsize}"))


@pytest.mark.parametrize("dtype", [types.FLOAT, types.FLOAT16])
def test_products_of_floats_and_booleans_keep_nan_and_signs(dtype):
    def build(x, mask):
        x = fn.cast(x, dtype=dtype)
        return x * mask, mask * x, x * fn.cast(mask, dtype=dtype), x * (x > 1.0)

    columns = np.tile(SPECIAL, 2), np.repeat([True, False], len(SPECIAL))
    with np.errstate(all="ignore"):
        host = run(build, *columns, placement="host")
    for expected, result in zip(host, run(build, *columns, placement="device"), strict=True):
        np.testing.assert_array_equal(bits(result), bits(expected))
