"""Regions of arrays that get a value."""

from __future__ import annotations

import numpy as np

from penstock.core.columns import Array
from penstock.native.compiled import Compiled, precompile


@precompile(*(f"u{size}[2] i8[1] i8[4] u{size}[2] i8 i8[1]" for size in (1, 4)))
@Compiled
def fill_regions(values: Array, shape: Array, regions: Array, fill: Array, channel: int, index: Array) -> None:
    """Put values into boxes of arrays of one shape, of any number of axes.

    Args:
        values: (rows, elements): unsigned integers, the bits of any dtype.
        shape: int64 (axes,): of an array.
        regions: int64 (rows, regions, axes, 2): the first index and the one behind the last.
        fill: (rows or 1, n): what with, one value, or in turn along the axis `channel`.
        channel: the axis that has its own values.
        index: int64 (axes,), for the loop.
    """
    last = len(shape) - 1
    for row in range(values.shape[0]):
        own = fill[row % fill.shape[0]]
        for region in range(regions.shape[1]):
            box = regions[row, region]
            lines = 1 if box[last, 0] < box[last, 1] else 0
            for axis in range(last):
                lines *= max(box[axis, 1] - box[axis, 0], 0)
                index[axis] = box[axis, 0]
            for _ in range(lines):
                start = np.int64(0)
                for axis in range(last):
                    start = (start + index[axis]) * shape[axis + 1]
                line = values[row, start + box[last, 0] : start + box[last, 1]]
                if channel == last and len(own) > 1:
                    for i in range(len(line)):
                        line[i] = own[(box[last, 0] + i) % len(own)]
                else:
                    line[:] = own[index[channel] % len(own) if len(own) > 1 else 0]
                for axis in range(last - 1, -1, -1):
                    index[axis] += 1
                    if index[axis] < box[axis, 1]:
                        break
                    index[axis] = box[axis, 0]
