"""The compiled loop that puts grains of salt and pepper on images."""

from __future__ import annotations

import numpy as np

from penstock.core.columns import Array
from penstock.native.compiled import Compiled, precompile

_UNIT = np.float32(2**-24)


@precompile(*(f"u{size}[2] u4[2] u4[2] f4[2] u{size}[2] i8 i8" for size in (1, 4)))
@Compiled
def sprinkle(values: Array, left: Array, right: Array, limits: Array, grains: Array, channels: int, inner: int) -> None:
    """Give elements, or pixels with all their channels, one of two values, by a random number for each.

    Args:
        values: (rows, elements): unsigned integers, the bits of any dtype; changed in place.
        left: uint32 (rows, n): the random bits of one half of the pixels.
        right: those of the rest.
        limits: float32 (rows or 1, 2): the number below which a pixel becomes a grain, and below which this is salt.
        grains: (rows or 1, 2): the values of salt and of pepper.
        channels: how many share their fate.
        inner: the distance between these, in elements.
    """
    half = left.shape[1]
    for row in range(values.shape[0]):
        limit, grain = limits[row % limits.shape[0]], grains[row % grains.shape[0]]
        most, salt = limit[0], limit[1]
        for i in range(values.shape[1] // max(channels, 1)):
            word = left[row, i] if i < half else right[row, i - half]
            drawn = np.float32(word >> np.uint32(8)) * _UNIT  # as `fractions`
            if drawn < most:
                first = i // inner * channels * inner + i % inner
                for c in range(channels):
                    values[row, first + c * inner] = grain[0 if drawn < salt else 1]
