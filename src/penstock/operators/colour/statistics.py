"""Compiled loops over the statistics of samples: sums along their first axes, and what is made with them."""

from __future__ import annotations

import numpy as np

from penstock.data.source import Array
from penstock.native.compiled import Compiled, ahead

_KINDS = ("u1", "f4")


@ahead(*(f"{kind}[3] f4[2] b1 f4[2]" for kind in _KINDS))
@Compiled
def total(values: Array, means: Array, squared: bool, sums: Array) -> None:
    """Sum what is left of values, or its square, one after the other in float32, as NumPy adds rows.

    Args:
        values: (samples, n, kept), uint8 or float32.
        means: float32 (samples, kept), what is subtracted.
        squared: whether the squares are summed.
        sums: float32 (samples, kept), receives the sums.
    """
    last = values.shape[2] - 1
    for sample in range(values.shape[0]):
        given, mean = values[sample], means[sample]
        for i in range(0, last + 1, 3):  # three at once, as each sum waits for the one before it
            j, k = min(i + 1, last), min(i + 2, last)
            a = b = c = np.float32(0)
            for n in range(given.shape[0]):
                x, y, z = np.float32(given[n, i]), np.float32(given[n, j]), np.float32(given[n, k])
                x, y, z = x - mean[i], y - mean[j], z - mean[k]
                if squared:
                    x, y, z = x * x, y * y, z * z
                a, b, c = a + x, b + y, c + z
            sums[sample, i], sums[sample, j], sums[sample, k] = a, b, c


@ahead(*(f"{kind}[3] f4[2] f4[2] f4 f4[3]" for kind in _KINDS))
@Compiled
def standardise(values: Array, means: Array, factors: Array, shift: np.float32, out: Array) -> None:
    """``(value - mean) * factor + shift`` in float32; the arguments are those of `total`, and factors as means."""
    for sample in range(values.shape[0]):
        mean, factor = means[sample], factors[sample]
        for n in range(values.shape[1]):
            line, made = values[sample, n], out[sample, n]
            for c in range(values.shape[2]):
                made[c] = (np.float32(line[c]) - mean[c]) * factor[c] + shift
