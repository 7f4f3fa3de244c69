"""A random place of the foreground of masks."""

from __future__ import annotations

import numpy as np

from penstock.core import Array
from penstock.native.compiled import Compiled, precompile


@precompile(*(f"{kind}[1] i8[1] b1[1] f8[1] i8[1] b1 u4[1] i8[1]" for kind in ("u1", "i4", "f4")))
@Compiled
def draw_pixels(
    values: Array,
    counts: Array,
    wanted: Array,
    thresholds: Array,
    labels: Array,
    exact: bool,
    bits: Array,
    places: Array,
) -> None:
    """Draw an element of each mask.

    Args:
        values: of one mask after the other.
        counts: int64 (rows,): how many elements each has; at least one.
        wanted: bool (rows,): whether it is one of the foreground, if there is some; else any.
        thresholds: float64 (rows,): what is greater is foreground.
        labels: int64 (rows,): what equals it is foreground, instead.
        exact: whether labels count.
        bits: uint32 (rows,).
        places: int64 (rows,), receives the numbers of the elements.
    """
    first = 0
    for row in range(counts.shape[0]):
        mask, among = values[first : first + counts[row]], 0
        threshold, label = thresholds[row], labels[row]
        if wanted[row]:
            for i in range(mask.shape[0]):
                among += (mask[i] == label) if exact else (mask[i] > threshold)
        drawn = np.int64(bits[row]) * (among or counts[row]) >> 32
        places[row] = drawn
        if among:
            i = -1
            while drawn >= 0:
                i += 1
                drawn -= (mask[i] == label) if exact else (mask[i] > threshold)
            places[row] = i
        first += counts[row]
