"""Padding has the same values on the host and on devices."""

import numpy as np
import pytest
from pipeline_runs import run

from penstock import fn

NUMBERS = np.full((5, 2, 2), 7, np.uint8)
VALUES = np.float32([-1, 300, 2.7, -0.6, 1e10])
EXPECTED = [0, 255, 2, 0, 255]


@pytest.mark.parametrize("placement", ["host", "device"])
@pytest.mark.parametrize("extents", [{"shape": [3, 3]}, {"align": 3}])
def test_fill_values_saturate(placement, extents):
    (result,) = run(lambda x, v: fn.pad(x, fill_value=v, **extents), NUMBERS, VALUES, placement=placement)
    assert [int(sample[2, 2]) for sample in result] == EXPECTED
    results = run(
        lambda x: tuple(fn.pad(x, fill_value=float(value), **extents) for value in VALUES),
        NUMBERS[:1],
        placement=placement,
    )
    assert [int(output[0][2, 2]) for output in results] == EXPECTED
