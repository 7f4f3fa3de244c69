"""Compiled loop that adds salt-and-pepper noise."""

import numpy as np

from penstock.core import Array
from penstock.native.compiled import Compiled, precompile

# Scale of 24 random bits to [0, 1).
_UNIT = np.float32(2**-24)


@precompile(*(f"u{size}[2] u4[2] u4[2] f4[2] u{size}[2] i8 i8" for size in (1, 4)))
@Compiled
def sprinkle(values: Array, left: Array, right: Array, limits: Array, grains: Array, channels: int, inner: int) -> None:
    """Replace random elements, or random pixels with all their channels, by one of two values.

    Args:
        values: (rows, elements), unsigned integers that hold the bits of any dtype; changed in place.
        left: uint32 (rows, n), random bits of the first half of the pixels.
        right: uint32 (rows, n), random bits of the rest.
        limits: float32 (rows or 1, 2), thresholds of the random number: below the first one a pixel
            changes, below the second one it becomes salt.
        grains: (rows or 1, 2), values of salt and pepper.
        channels: Number of channels that change together.
        inner: Distance between these channels, in elements.
    """
    half = left.shape[1]
    for row in range(values.shape[0]):
        limit, grain = limits[row % limits.shape[0]], grains[row % grains.shape[0]]
        most, salt = limit[0], limit[1]
        for i in range(values.shape[1] // max(channels, 1)):
            word = left[row, i] if i < half else right[row, i - half]
            # The upper 24 bits, which float32 holds exactly, as `fractions` computes it for the device.
            drawn = np.float32(word >> np.uint32(8)) * _UNIT
            if drawn < most:
                first = i // inner * channels * inner + i % inner
                for c in range(channels):
                    values[row, first + c * inner] = grain[0 if drawn < salt else 1]
