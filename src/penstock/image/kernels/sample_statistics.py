"""Compiled loops over the statistics of samples: sums along their first axes, and what is made with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.columns import Array
from penstock.native.compiled import Compiled, precompile

_KINDS = ("u1", "f4")


_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)


@Compiled
def added(so_far: np.float32, value: Any, mean: np.float32, squared: bool) -> np.float32:
    """A sum with what is left of another value, or with its square."""
    rest = np.float32(value) - mean
    return so_far + (rest * rest if squared else rest)


@Compiled
def total_of_two(one: Array, two: Array, means: Array, squared: bool, sums: Array) -> None:
    """`total` of two samples that have three sums each, the usual case.

    They are added as four values, which fit a register. The fourth is left over.
    """
    none, last = np.float32(0), np.uint64(one.shape[0] - 3)
    m0, m1, m2, n0, n1, n2 = means[0, 0], means[0, 1], means[0, 2], means[1, 0], means[1, 1], means[1, 2]
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = none
    for i in range(np.uint64(0), last, _THREE):
        j, k, spare = i + _ONE, i + _TWO, i + _THREE
        a0, a1 = added(a0, one[i], m0, squared), added(a1, one[j], m1, squared)
        a2, a3 = added(a2, one[k], m2, squared), added(a3, one[spare], none, squared)
        b0, b1 = added(b0, two[i], n0, squared), added(b1, two[j], n1, squared)
        b2, b3 = added(b2, two[k], n2, squared), added(b3, two[spare], none, squared)
    i, j, k = last, last + _ONE, last + _TWO
    sums[0, 0], sums[1, 0] = added(a0, one[i], m0, squared), added(b0, two[i], n0, squared)
    sums[0, 1], sums[1, 1] = added(a1, one[j], m1, squared), added(b1, two[j], n1, squared)
    sums[0, 2], sums[1, 2] = added(a2, one[k], m2, squared), added(b2, two[k], n2, squared)


@precompile(*(f"{kind}[2] f4[2] b1 f4[2]" for kind in _KINDS))
@Compiled
def total(values: Array, means: Array, squared: bool, sums: Array) -> None:
    """Sum what is left of values, or its square, one after the other in float32, as NumPy adds rows.

    Args:
        values: (samples, n * kept), uint8 or float32.
        means: float32 (samples, kept), what is subtracted.
        squared: whether the squares are summed.
        sums: float32 (samples, kept), receives the sums.
    """
    samples, kept = means.shape
    pairs = samples // 2 * 2 if kept == 3 else 0
    for sample in range(0, pairs, 2):
        end = sample + 2
        total_of_two(values[sample], values[sample + 1], means[sample:end], squared, sums[sample:end])
    for sample in range(pairs, samples):
        given, mean = values[sample], means[sample]
        for i in range(0, kept, 3):  # three at once, as each sum waits for the one before it
            j, k = min(i + 1, kept - 1), min(i + 2, kept - 1)
            a = b = c = np.float32(0)
            for first in range(0, given.shape[0], kept):
                a, b = added(a, given[first + i], mean[i], squared), added(b, given[first + j], mean[j], squared)
                c = added(c, given[first + k], mean[k], squared)
            sums[sample, i], sums[sample, j], sums[sample, k] = a, b, c


@precompile(*(f"{kind}[3] f4[2] f4[2] f4 f4[3]" for kind in _KINDS))
@Compiled
def standardise(values: Array, means: Array, factors: Array, shift: np.float32, out: Array) -> None:
    """``(value - mean) * factor + shift`` in float32; the arguments are those of `total`, and factors as means."""
    for sample in range(values.shape[0]):
        mean, factor = means[sample], factors[sample]
        for n in range(values.shape[1]):
            line, made = values[sample, n], out[sample, n]
            for c in range(values.shape[2]):
                made[c] = (np.float32(line[c]) - mean[c]) * factor[c] + shift
