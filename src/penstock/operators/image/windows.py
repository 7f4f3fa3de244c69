"""The compiled loop that copies windows of images as they are: cropped, flipped, padded; as `kernels` has places."""

from __future__ import annotations

import numpy as np

from penstock.data.source import Array
from penstock.native.compiled import Compiled, ahead


@ahead(*(f"u{size}[1] i8[2] i8[3] u{size}[2] u{size}[1] i8[2] i8[2] i8 i8[1]" for size in (1, 4)))
@Compiled
def copy(  # noqa: C901  # a compiled function is one function
    values: Array,
    place_in: Array,
    spans: Array,
    fill: Array,
    out: Array,
    place_out: Array,
    shape: Array,
    channel: int,
    index: Array,
) -> None:
    """Windows of arrays of any number of axes, at least five, element by element.

    Args:
        values: the memory to read.
        place_in: int64 (arrays, 1 + axes): the element that index (0, 0, ...) of the result comes from, which may lie
            outside, and the distances along the axes of the result.
        spans: int64 (arrays, axes, 2): which indices of the result come from the array; the others are filled.
        fill: (arrays or 1, n): what with, one value or one per index of the axis `channel`.
        out: the memory to write.
        place_out: int64 (arrays, 1 + axes): where.
        shape: int64 (arrays, axes): of the result.
        channel: the axis that has its own fill values.
        index: int64 (axes,), for the loop.
    """
    last = shape.shape[1] - 1
    for n in range(shape.shape[0]):
        size, low, high = shape[n, last], spans[n, last, 0], spans[n, last, 1]
        step_in, step_out = place_in[n, 1 + last], place_out[n, 1 + last]
        lines, count = 1 if size else 0, shape[n, last - 1]
        for axis in range(last - 1):
            lines *= shape[n, axis]
            index[axis] = 0
        fills = fill[n % fill.shape[0]]
        for _ in range(lines):
            source, target, covered = place_in[n, 0], place_out[n, 0], True
            for axis in range(last - 1):
                source += index[axis] * place_in[n, 1 + axis]
                target += index[axis] * place_out[n, 1 + axis]
                covered = covered and spans[n, axis, 0] <= index[axis] < spans[n, axis, 1]
            for j in range(count):
                index[last - 1] = j
                begin, end = (
                    (low, high) if covered and spans[n, last - 1, 0] <= j < spans[n, last - 1, 1] else (size, size)
                )
                for i in range(begin):
                    out[target + i * step_out] = fills[(i if channel == last else index[channel]) % fills.shape[0]]
                read, write = np.uint64(source + begin * step_in), np.uint64(target + begin * step_out)
                if step_in == 1 and step_out == 1:  # many at a time
                    for i in range(np.uint64(end - begin)):
                        out[write + i] = values[read + i]
                else:
                    for _ in range(np.uint64(end - begin)):
                        out[write] = values[read]
                        read += np.uint64(step_in)
                        write += np.uint64(step_out)
                for i in range(end, size):
                    out[target + i * step_out] = fills[(i if channel == last else index[channel]) % fills.shape[0]]
                source += place_in[n, last]
                target += place_out[n, last]
            for axis in range(last - 2, -1, -1):
                index[axis] += 1
                if index[axis] < shape[n, axis]:
                    break
                index[axis] = 0
