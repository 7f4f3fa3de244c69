"""Compiled loops for the statistics of samples: sums along the first axes, and normalization with them."""

from typing import Any

import numpy as np

from penstock.core import Array
from penstock.native.compiled import Compiled, precompile

_KINDS = ("u1", "f4")


# Unsigned, because a signed index costs a test for negative values.
_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)


@Compiled
def added(total: np.float32, value: Any, mean: np.float32, squared: bool) -> np.float32:
    """Add the deviation from the mean, or its square, to a running sum."""
    deviation = np.float32(value) - mean
    return total + (deviation * deviation if squared else deviation)


@Compiled
def total_of_two(one: Array, two: Array, means: Array, squared: bool, sums: Array) -> None:
    """Compute `total` for two samples with three sums each, the usual case.

    Each sample is added as four values, which fit a vector register; the fourth is discarded.
    """
    zero, last = np.float32(0), np.uint64(one.shape[0] - 3)
    m0, m1, m2, n0, n1, n2 = means[0, 0], means[0, 1], means[0, 2], means[1, 0], means[1, 1], means[1, 2]
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zero
    for i in range(np.uint64(0), last, _THREE):
        j, k, spare = i + _ONE, i + _TWO, i + _THREE
        a0, a1 = added(a0, one[i], m0, squared), added(a1, one[j], m1, squared)
        a2, a3 = added(a2, one[k], m2, squared), added(a3, one[spare], zero, squared)
        b0, b1 = added(b0, two[i], n0, squared), added(b1, two[j], n1, squared)
        b2, b3 = added(b2, two[k], n2, squared), added(b3, two[spare], zero, squared)
    # The last pixel is added separately: its fourth value would be past the end of the sample.
    i, j, k = last, last + _ONE, last + _TWO
    sums[0, 0], sums[1, 0] = added(a0, one[i], m0, squared), added(b0, two[i], n0, squared)
    sums[0, 1], sums[1, 1] = added(a1, one[j], m1, squared), added(b1, two[j], n1, squared)
    sums[0, 2], sums[1, 2] = added(a2, one[k], m2, squared), added(b2, two[k], n2, squared)


@precompile(*(f"{kind}[2] f4[2] b1 f4[2]" for kind in _KINDS))
@Compiled
def total(values: Array, means: Array, squared: bool, sums: Array) -> None:
    """Sum deviations from a mean, or their squares, sequentially in float32, in the order in which NumPy adds rows.

    Args:
        values: (samples, n * kept), uint8 or float32.
        means: float32 (samples, kept), subtracted from the values.
        squared: True to sum the squares.
        sums: float32 (samples, kept), receives the sums.
    """
    samples, kept = means.shape
    pairs = samples // 2 * 2 if kept == 3 else 0
    for sample in range(0, pairs, 2):
        end = sample + 2
        total_of_two(values[sample], values[sample + 1], means[sample:end], squared, sums[sample:end])
    for sample in range(pairs, samples):
        pixels, mean = values[sample], means[sample]
        # Three sums at once: additions to one sum depend on each other, and three hide each other's latency.
        for i in range(0, kept, 3):
            j, k = min(i + 1, kept - 1), min(i + 2, kept - 1)
            a = b = c = np.float32(0)
            for first in range(0, pixels.shape[0], kept):
                a, b = added(a, pixels[first + i], mean[i], squared), added(b, pixels[first + j], mean[j], squared)
                c = added(c, pixels[first + k], mean[k], squared)
            sums[sample, i], sums[sample, j], sums[sample, k] = a, b, c


@precompile(*(f"{kind}[3] f4[2] f4[2] f4 f4[3]" for kind in _KINDS))
@Compiled
def standardize(values: Array, means: Array, factors: Array, shift: np.float32, out: Array) -> None:
    """Compute ``(value - mean) * factor + shift`` in float32.

    The arguments are those of `total`; `factors` has the shape of `means`.
    """
    for sample in range(values.shape[0]):
        mean, factor = means[sample], factors[sample]
        for n in range(values.shape[1]):
            line, result = values[sample, n], out[sample, n]
            for c in range(values.shape[2]):
                result[c] = (np.float32(line[c]) - mean[c]) * factor[c] + shift
