"""Draw of random pixels in masks, for `fn.segmentation.random_mask_pixel`."""

import numpy as np

from penstock.core import Array
from penstock.native.compiled import Compiled, precompile


@precompile(*(f"{kind}[1] i8[1] b1[1] f8[1] i8[1] b1 u4[1] i8[1]" for kind in ("u1", "i4", "f4")))
@Compiled
def draw_pixels(
    values: Array,
    counts: Array,
    foreground: Array,
    thresholds: Array,
    labels: Array,
    exact: bool,
    bits: Array,
    places: Array,
) -> None:
    """Draw an element of each mask.

    Args:
        values: Elements of the masks, one mask after the other.
        counts: int64 (rows,), number of elements of each mask, at least one.
        foreground: bool (rows,), True to draw from the foreground if there is one; False to draw any element.
        thresholds: float64 (rows,). Greater values are foreground.
        labels: int64 (rows,). Equal values are foreground, instead of the threshold.
        exact: True to use the labels.
        bits: uint32 (rows,), random bits.
        places: int64 (rows,), receives the indices of the elements.
    """
    first = 0
    for row in range(counts.shape[0]):
        mask, among = values[first : first + counts[row]], 0
        threshold, label = thresholds[row], labels[row]
        if foreground[row]:
            for i in range(mask.shape[0]):
                among += (mask[i] == label) if exact else (mask[i] > threshold)
        # Multiply and shift maps 32 random bits to an index without a division.
        drawn = np.int64(bits[row]) * (among or counts[row]) >> 32
        places[row] = drawn
        if among:
            # The foreground element of that number.
            i = -1
            while drawn >= 0:
                i += 1
                drawn -= (mask[i] == label) if exact else (mask[i] > threshold)
            places[row] = i
        first += counts[row]
