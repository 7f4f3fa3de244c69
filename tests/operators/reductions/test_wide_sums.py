"""Sums of integers beyond 32 bits are the same on the host and on devices, which have no 64-bit integers."""

import numpy as np
import pytest
from pipeline_runs import run

from penstock import fn, types

DTYPES = (types.FLOAT, types.FLOAT16, types.INT32, types.UINT32, types.UINT8, types.INT16)
RANDOM = np.random.default_rng(0)
COLUMNS = {
    "uint16": np.full((2, 300, 300, 3), 60000, np.uint16),
    "int32": np.stack([np.full(7, 2**30, np.int32), np.full(7, -(2**31), np.int32), np.arange(-3, 4, dtype=np.int32)]),
    "uint32": RANDOM.integers(2**31, 2**32, (50, 1001), dtype=np.uint32),
    # A float32 of 24 bits cannot hold these sums, and some of them are halfway between two.
    "ties": np.int32([[2**31 - 1, 2**31 - 1, n] for n in range(-300, 300)]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_wide_sums_of_devices_are_those_of_the_host(name):
    def build(x):
        return tuple(fn.reductions.sum(x, dtype=dtype) for dtype in DTYPES)

    with np.errstate(all="ignore"):
        host = run(build, COLUMNS[name], placement="host")
    for expected, result in zip(host, run(build, COLUMNS[name], placement="device"), strict=True):
        np.testing.assert_array_equal(result, expected, strict=True)
