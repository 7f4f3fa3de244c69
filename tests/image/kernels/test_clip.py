"""Numbers are limited to a range, as NumPy limits them, in machine code and in Python."""

import numpy as np
import pytest

from penstock.core import Array
from penstock.image.kernels.clip import byte, clip
from penstock.native.compiled import Compiled


@Compiled
def clip_all(values: Array, low: Array, high: Array, out: Array) -> None:
    for i in range(values.shape[0]):
        out[i] = clip(values[i], low[0], high[0])


@Compiled
def bytes_of(values: Array, out: Array) -> None:
    for i in range(values.shape[0]):
        out[i] = byte(values[i])


FORMS = pytest.mark.parametrize("form", [lambda loop: loop, lambda loop: loop.python_function], ids=["code", "Python"])


@FORMS
@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
def test_numbers_are_limited(form, dtype):
    values = np.arange(-6, 7, dtype=dtype)
    out = np.empty_like(values)
    form(clip_all)(values, np.array([-2], dtype), np.array([3], dtype), out)
    np.testing.assert_array_equal(out, np.clip(values, -2, 3))


@FORMS
def test_infinity_is_limited_and_nan_becomes_the_lower_limit(form):
    values = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
    out = np.empty_like(values)
    form(clip_all)(values, np.array([1], np.float32), np.array([2], np.float32), out)
    np.testing.assert_array_equal(out, [1, 2, 1, 1])


@FORMS
def test_values_are_limited_to_bytes(form):
    values = np.array([-300, -1, 0, 7, 255, 256, 70_000])
    out = np.empty(len(values), np.uint8)
    form(bytes_of)(values, out)
    np.testing.assert_array_equal(out, [0, 0, 0, 7, 255, 255, 255])
