"""Compiled loop that copies windows of images: crop, flip and pad. Places are those of `resample_rows`."""

from typing import Any

import numpy as np

from penstock.core import Array
from penstock.native.compiled import Compiled, precompile


@Compiled
def fill_line(out: Array, write: int, step: int, count: int, value: Any) -> None:
    """Write one value `count` times, beginning at `write`."""
    at = np.uint64(write)
    if step == 1:  # a constant stride vectorizes
        for i in range(np.uint64(count)):
            out[at + i] = value
    else:
        for _ in range(np.uint64(count)):
            out[at] = value
            at += np.uint64(step)


@Compiled
def copy_line(values: Array, read: int, step_in: int, out: Array, write: int, step_out: int, count: int) -> None:
    """Copy elements along one axis.

    Indices are unsigned: for a signed index, numba adds a test for negative values.
    """
    source, target = np.uint64(read), np.uint64(write)
    if step_in == 1 and step_out == 1:  # constant strides vectorize
        for i in range(np.uint64(count)):
            out[target + i] = values[source + i]
    else:
        for _ in range(np.uint64(count)):
            out[target] = values[source]
            source += np.uint64(step_in)
            target += np.uint64(step_out)


@Compiled
def copy_triples(values: Array, read: int, step_in: int, out: Array, write: int, step_out: int, count: int) -> None:
    """Copy pixels of three interleaved channels, the usual case, along one axis."""
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    source, target = np.uint64(read), np.uint64(write)
    if step_in == -3 and step_out == 3:  # mirrored; constant strides vectorize
        for i in range(np.uint64(count)):
            at, to = source - three * i, target + three * i
            out[to], out[to + one], out[to + two] = values[at], values[at + one], values[at + two]
        return
    for _ in range(np.uint64(count)):
        red, green, blue = values[source], values[source + one], values[source + two]
        out[target], out[target + one], out[target + two] = red, green, blue
        source += np.uint64(step_in)
        target += np.uint64(step_out)


@precompile(*(f"u{size}[1] i8[2] i8[3] u{size}[2] u{size}[1] i8[2] i8[2] i8 i8[1]" for size in (1, 4)))
@Compiled
def copy_windows(  # noqa: C901  # one loop nest; its state does not split into functions
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
    """Copy windows of arrays with five or more axes, element by element.

    Args:
        values: The memory to read.
        place_in: int64 (arrays, 1 + axes), offset of the source of index (0, 0, ...), which may be outside, and the
            strides along the axes of the result.
        spans: int64 (arrays, axes, 2), range of result indices that come from the array; the others are filled.
        fill: (arrays or 1, n), fill value: one, or one per index of the axis `channel`.
        out: The memory to write.
        place_out: int64 (arrays, 1 + axes), offset and strides of the result.
        shape: int64 (arrays, axes), shape of the result.
        channel: Axis along which fill values differ.
        index: int64 (axes,), scratch memory for the index.
    """
    last = shape.shape[1] - 1
    for n in range(shape.shape[0]):
        size, low, high = shape[n, last], spans[n, last, 0], spans[n, last, 1]
        step_in, step_out = place_in[n, 1 + last], place_out[n, 1 + last]
        blocks, rows, count = 1 if size else 0, shape[n, last - 2], shape[n, last - 1]
        for axis in range(last - 2):
            blocks *= shape[n, axis]
            index[axis] = 0
        fills = fill[n % fill.shape[0]]
        triples = size == 3 and low == 0 and high == 3 and step_in == 1 and step_out == 1
        source, target, covers = place_in[n, 0], place_out[n, 0], True
        row = 0
        # The number of axes varies, so the outer ones advance like an odometer at the end of this loop.
        for _ in range(blocks * rows):
            if row == 0:
                source, target, covers = place_in[n, 0], place_out[n, 0], True
                for axis in range(last - 2):
                    source += index[axis] * place_in[n, 1 + axis]
                    target += index[axis] * place_out[n, 1 + axis]
                    covers = covers and spans[n, axis, 0] <= index[axis] < spans[n, axis, 1]
            index[last - 2] = row
            covered = covers and spans[n, last - 2, 0] <= row < spans[n, last - 2, 1]
            first, after = (spans[n, last - 1, 0], spans[n, last - 1, 1]) if covered else (count, count)
            j = 0
            while j < count:
                read, write = source + j * place_in[n, last], target + j * place_out[n, last]
                if triples and first <= j < after:
                    copy_triples(values, read, place_in[n, last], out, write, place_out[n, last], after - j)
                    j = after
                    continue
                index[last - 1] = j
                begin, end = (low, high) if first <= j < after else (size, size)
                if channel == last and fills.shape[0] > 1:
                    for i in range(begin):
                        out[write + i * step_out] = fills[i % fills.shape[0]]
                    for i in range(end, size):
                        out[write + i * step_out] = fills[i % fills.shape[0]]
                else:
                    value = fills[index[channel] % fills.shape[0] if fills.shape[0] > 1 else 0]
                    fill_line(out, write, step_out, begin, value)
                    fill_line(out, write + end * step_out, step_out, size - end, value)
                copy_line(values, read + begin * step_in, step_in, out, write + begin * step_out, step_out, end - begin)
                j += 1
            source, target, row = source + place_in[n, last - 1], target + place_out[n, last - 1], row + 1
            if row < rows:
                continue
            row = 0
            for axis in range(last - 3, -1, -1):
                index[axis] += 1
                if index[axis] < shape[n, axis]:
                    break
                index[axis] = 0
