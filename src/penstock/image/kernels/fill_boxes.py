"""Compiled loop that fills regions of arrays with values."""

import numpy as np

from penstock.core import Array
from penstock.native.compiled import Compiled, precompile


@precompile(*(f"u{size}[2] i8[1] i8[4] u{size}[2] i8 i8[1]" for size in (1, 4)))
@Compiled
def fill_regions(values: Array, shape: Array, regions: Array, fill: Array, channel: int, index: Array) -> None:
    """Fill boxes of arrays of one shape and any number of axes.

    Args:
        values: (rows, elements), unsigned integers that hold the bits of any dtype.
        shape: int64 (axes,), shape of an array.
        regions: int64 (rows, regions, axes, 2), first index and end (exclusive).
        fill: (rows or 1, n), fill value: one, or several that repeat along the axis `channel`.
        channel: Axis along which fill values differ.
        index: int64 (axes,), scratch memory for the index.
    """
    last = len(shape) - 1
    for row in range(values.shape[0]):
        fill_values = fill[row % fill.shape[0]]
        for region in range(regions.shape[1]):
            box = regions[row, region]
            lines = 1 if box[last, 0] < box[last, 1] else 0
            for axis in range(last):
                lines *= max(box[axis, 1] - box[axis, 0], 0)
                index[axis] = box[axis, 0]
            # A line along the last axis is filled at once; the index of the other axes advances like an odometer.
            for _ in range(lines):
                start = np.int64(0)
                for axis in range(last):
                    start = (start + index[axis]) * shape[axis + 1]
                line = values[row, start + box[last, 0] : start + box[last, 1]]
                if channel == last and len(fill_values) > 1:
                    for i in range(len(line)):
                        line[i] = fill_values[(box[last, 0] + i) % len(fill_values)]
                else:
                    line[:] = fill_values[index[channel] % len(fill_values) if len(fill_values) > 1 else 0]
                for axis in range(last - 1, -1, -1):
                    index[axis] += 1
                    if index[axis] < box[axis, 1]:
                        break
                    index[axis] = box[axis, 0]
