"""Which box an anchor has to find."""

from __future__ import annotations

import numpy as np

from penstock.core.columns import Array
from penstock.native.compiled import Compiled, precompile


@Compiled
def area(box: Array) -> np.float32:
    """Width times height of left, top, right, bottom."""
    return (box[2] - box[0]) * (box[3] - box[1])


@precompile("f4[2] i8[1] f4[2] f4 f4[1] i8[1] i8[2]")
@Compiled
def match(
    boxes: Array,
    counts: Array,
    anchors: Array,
    criteria: np.float32,
    best: Array,
    favourites: Array,
    found: Array,
) -> None:
    """Find a box for each anchor of each image.

    An anchor takes the box that it overlaps most, if by more than `criteria`; and each box takes the anchor that
    overlaps it most, even from an earlier box. Of what is equally good the last is taken.

    Args:
        boxes: float32 (n, 4): left, top, right, bottom; of one image after the other.
        counts: int64 (rows,): how many boxes each has.
        anchors: float32 (m, 4).
        criteria: intersection over union.
        best: float32 (m,), overwritten.
        favourites: int64 (n,), overwritten.
        found: int64 (rows, m), receives numbers of boxes, -1 where there is none.
    """
    first, last = 0, anchors.shape[0] - 1
    for row in range(counts.shape[0]):
        taken = found[row]
        for a in range(anchors.shape[0]):
            best[a], taken[a] = criteria, -1
        for n in range(first, first + counts[row]):
            box, most = boxes[n], np.float32(0)
            own, favourites[n] = area(box), last
            for a in range(anchors.shape[0]):
                anchor = anchors[a]
                wide = min(anchor[2], box[2]) - max(anchor[0], box[0])
                high = min(anchor[3], box[3]) - max(anchor[1], box[1])
                if wide <= 0 or high <= 0:
                    continue
                both = wide * high
                overlap = both / (own + area(anchor) - both)
                if overlap > criteria and overlap >= best[a]:
                    best[a], taken[a] = overlap, n
                if overlap >= most:
                    most, favourites[n] = overlap, a
        for n in range(first, first + counts[row]):
            taken[favourites[n]] = n
        first += counts[row]
