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


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32"])
def test_powers_of_integers_wrap_alike(dtype):
    bases = np.array([0, 1, 2, 3, 7, 10, 100, -1, -2, -7], np.int64).astype(dtype)
    exponents = np.array([0, 1, 2, 5, 31, 32, 63, 64, 100, 127, -1], np.int64).astype(dtype)
    columns = np.repeat(bases, len(exponents)), np.tile(exponents, len(bases))
    host, device = (run(lambda a, b: (a**b, a**3, 3**b), *columns, placement=place) for place in ("host", "device"))
    for expected, result in zip(host, device, strict=True):
        np.testing.assert_array_equal(result, expected, strict=True)
