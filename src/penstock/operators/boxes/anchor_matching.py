"""Matching of anchors to boxes, for `fn.box_encoder`."""

import numpy as np

from penstock.core import Array
from penstock.native.compiled import Compiled, precompile


@Compiled
def area(box: Array) -> np.float32:
    """Return the area of a box of left, top, right, bottom."""
    return (box[2] - box[0]) * (box[3] - box[1])


@precompile("f4[2] i8[1] f4[2] f4 f4[1] i8[1] i8[2]")
@Compiled
def match(
    boxes: Array,
    counts: Array,
    anchors: Array,
    criteria: np.float32,
    best: Array,
    favorites: Array,
    matches: Array,
) -> None:
    """Find a box for each anchor of each image.

    An anchor gets the box with the largest IoU, if it exceeds `criteria`. Then each box gets its best anchor, even if
    an earlier box has it.

    Args:
        boxes: float32 (n, 4): left, top, right, bottom; concatenated over images.
        counts: int64 (rows,), number of boxes per image.
        anchors: float32 (m, 4).
        criteria: Minimum intersection over union.
        best: float32 (m,), scratch memory.
        favorites: int64 (n,), scratch memory.
        matches: int64 (rows, m), receives indices of boxes, -1 for none.
    """
    first, last = 0, anchors.shape[0] - 1
    for row in range(counts.shape[0]):
        row_matches = matches[row]
        for a in range(anchors.shape[0]):
            best[a], row_matches[a] = criteria, -1
        for n in range(first, first + counts[row]):
            box, most = boxes[n], np.float32(0)
            own, favorites[n] = area(box), last
            for a in range(anchors.shape[0]):
                anchor = anchors[a]
                wide = min(anchor[2], box[2]) - max(anchor[0], box[0])
                high = min(anchor[3], box[3]) - max(anchor[1], box[1])
                if wide <= 0 or high <= 0:
                    continue
                both = wide * high
                # DALI keeps the last of equally good boxes and anchors, therefore >= below.
                overlap = both / (own + area(anchor) - both)
                if overlap > criteria and overlap >= best[a]:
                    best[a], row_matches[a] = overlap, n
                if overlap >= most:
                    most, favorites[n] = overlap, a
        # As in DALI, a box that overlaps no anchor takes the last one, which `favorites` starts with.
        for n in range(first, first + counts[row]):
            row_matches[favorites[n]] = n
        first += counts[row]
