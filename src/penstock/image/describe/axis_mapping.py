"""What becomes of one axis of many images: a few numbers per image, from which executors make pixels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.image.kernels.filter_taps import NEAREST_BY_STEPS
from penstock.types import INTERP_CUBIC, INTERP_GAUSSIAN, INTERP_LANCZOS3, INTERP_LINEAR, INTERP_NN

Rows = Any
"""One number per row: an array of NumPy's, or of JAX's while the device program is traced."""


class AxisMapping(NamedTuple):
    """What becomes of an axis, one entry per row in each field.

    Args:
        begin: the first pixel that exists; nothing before it is read.
        end: the first pixel after the last.
        low: where the part begins that is resampled, in pixels from the image's edge.
        high: where it ends; before `low` where it is mirrored.
        size: to how many pixels it is resampled.
        start: the first of these that is wanted; outside of [0, size) where a window leaves the image.
        length: how many are wanted.
        mirrored: whether these are exchanged end for end.
        filters: an interpolation of `penstock.types`, or `NEAREST_BY_STEPS`.
        antialias: whether the filter is stretched where the image shrinks.
    """

    begin: Rows
    end: Rows
    low: Rows
    high: Rows
    size: Rows
    start: Rows
    length: Rows
    mirrored: Rows
    filters: Rows
    antialias: Rows

    def of(self, rows: Any) -> AxisMapping:
        """Those of some rows."""
        return AxisMapping(*[field[rows] for field in self])

    def matrix(self) -> NDArray[np.float64]:
        """The numbers as compiled loops take them, (rows, 10)."""
        result = np.empty((len(self.begin), len(self)))
        for column, field in enumerate(self):
            result[:, column] = field
        return result


def where(condition: Rows, one: Rows, other: Rows) -> Rows:
    """NumPy's `where`, for numbers of which the type checker knows nothing."""
    where: Any = np.where
    return where(condition, one, other)


def identity(extents: Rows) -> AxisMapping:
    """Axes as they are.

    >>> identity(np.array([640, 480])).length.tolist()
    [640, 480]
    """
    none, no, linear = _defaults(len(extents))
    return AxisMapping(none, extents, none, extents, extents, none, extents, no, linear, no)


@lru_cache(maxsize=16)
def _defaults(rows: int) -> tuple[Rows, Rows, Rows]:
    """Zeros, as many times False, and INTERP_LINEAR. Nobody writes into the numbers of an axis."""
    result = np.zeros(rows, np.int32), np.zeros(rows, np.bool_), np.full(rows, int(INTERP_LINEAR), np.int32)
    for each in result:
        each.flags.writeable = False
    return result


def crop(xp: Any, numbers: AxisMapping, first: Rows, length: Rows) -> AxisMapping:
    """Axes of which fewer pixels are wanted: `length` of them from number `first` on, as they now lie."""
    after: Rows = numbers.length - first - length
    known = all(isinstance(field, np.ndarray) for field in (after, numbers.mirrored))
    where: Any = np.where if known else xp.where
    return numbers._replace(start=numbers.start + where(numbers.mirrored, after, first), length=length)


def mirror(numbers: AxisMapping, flags: Rows) -> AxisMapping:
    """Axes exchanged end for end where a flag is set."""
    return numbers._replace(mirrored=numbers.mirrored != flags)


def resample(
    numbers: AxisMapping,
    low: Rows,
    high: Rows,
    size: Rows,
    filters: Rows,
    antialias: bool,
    *,
    by_steps: bool,
    origin: Rows = 0,
) -> AxisMapping:
    """Windows that are resampled: from `low` to `high`, in pixels of the window, to `size` pixels.

    Args:
        numbers: windows that are neither resampled nor mirrored, and lie inside.
        low: where the part begins.
        high: where it ends.
        size: to how many pixels.
        filters: which interpolation.
        antialias: whether filters are stretched where the axis shrinks.
        by_steps: whether INTERP_NN means `NEAREST_BY_STEPS`.
        origin: the first pixel of the window that exists, where `origins` says so.
    """
    nearest = filters == INTERP_NN
    counted = nearest | (filters == INTERP_GAUSSIAN)
    low, high = (where(counted, np.float32(end), end) for end in (low, high))  # before `origin` is taken off
    if by_steps:
        filters = filters + (NEAREST_BY_STEPS - INTERP_NN) * nearest
    first: Rows = numbers.begin + numbers.start
    nothing: Rows = np.zeros(len(size), np.int32)
    shrinks = (size < abs(high - low)) & antialias
    end = first + numbers.length
    return AxisMapping(
        first + origin, end, low + first, high + first, size, nothing, size, nothing != 0, filters, shrinks
    )


def origins(xp: Any, rows: Sequence[Rows], columns: Sequence[Rows], antialias: bool) -> tuple[Rows, Rows]:
    """From which pixels DALI counts along the height and along the width.

    With INTERP_NN and INTERP_GAUSSIAN its float32 shows there. The axis that is resampled last begins at the first
    pixel that is read, the other one at the image's edge. The order is that which DALI reckons to cost less.

    Args:
        xp: the array namespace.
        rows: the extent of the height, where the part begins and ends, to how many pixels it is resampled, the filter.
        columns: the same of the width.
        antialias: whether filters are stretched where an axis shrinks.
    """
    (height, top, bottom, tall, by_rows), (width, left, right, wide, by_columns) = rows, columns
    bell = (by_rows == INTERP_GAUSSIAN) & (by_columns == INTERP_GAUSSIAN)
    either = bell | ((by_rows == INTERP_NN) & (by_columns == INTERP_NN))

    def read(extent: Rows, low: Rows, high: Rows, size: Rows) -> tuple[Rows, Rows, Rows]:
        """The first pixel that is read, how many are, and how many make one."""
        reach = xp.where(bell, xp.maximum(abs(high - low) / size, 1.0) if antialias else 1.0, 0.0)
        first = xp.clip((xp.minimum(low, high) - reach) // 1, 0, extent - 1)
        return first, xp.minimum(extent, (xp.maximum(low, high) + reach) // 1 + 1) - first, xp.where(bell, 2 * reach, 1)

    first_row, read_rows, down = read(height, top, bottom, tall)
    first_column, read_columns, across = read(width, left, right, wide)
    height_first = (down + 3) * read_columns * tall + 1.4 * across * tall * wide
    height_first = height_first < (1.4 * across + 3) * read_rows * wide + down * tall * wide
    first_row = xp.where(either & ~height_first, first_row, 0)
    first_column = xp.where(either & height_first, first_column, 0)
    return first_row.astype(np.int32), first_column.astype(np.int32)


def downscaled(numbers: AxisMapping, parts: Rows) -> AxisMapping:
    """The same for images that are decoded at a half, a quarter, an eighth of their size, rounded up."""
    begin, end = numbers.begin // parts, -(-numbers.end // parts)
    return numbers._replace(begin=begin, end=end, low=numbers.low / parts, high=numbers.high / parts)


def is_resampled(numbers: AxisMapping) -> NDArray[np.bool_]:
    """Whether pixels are computed, not only picked. The bell weighs in its neighbours even at the same size."""
    same = numbers.size == numbers.end - numbers.begin
    same &= (numbers.low == numbers.begin) & (numbers.high == numbers.end)
    return ~same | (numbers.filters == INTERP_GAUSSIAN)


def most_taps(numbers: AxisMapping) -> int:
    """How many pixels at most make one."""
    return int(taps_per_row(numbers).max(initial=2))


def taps_per_row(numbers: AxisMapping) -> NDArray[np.int64]:
    """How many pixels at most make one, per row."""
    stretch = np.where(numbers.antialias, np.maximum(np.abs(numbers.high - numbers.low) / numbers.size, 1.0), 1.0)
    return (2 * _supports(numbers.filters) * stretch).astype(np.int64) + 2


def _supports(filters: Rows) -> NDArray[np.float64]:
    """How far filters reach to each side, before they are stretched."""
    return np.where(filters == INTERP_CUBIC, 2.0, np.where(filters == INTERP_LANCZOS3, 3.0, 1.0))


def max_filter_support(*filters: Rows) -> float:
    """How far filters reach to each side at most. INTERP_NN takes one pixel; the bell's ends are rounded."""
    known = {int(INTERP_NN): 0.5, int(INTERP_CUBIC): 2.0, int(INTERP_LANCZOS3): 3.0, int(INTERP_GAUSSIAN): 1.5}
    return max(known.get(kind, 1.0) for each in filters for kind in np.unique(each).tolist())


def read_range(numbers: AxisMapping) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which pixels are read at most: the first, and the one after the last. Both lie in the image."""
    begin, end = numbers.begin, numbers.end
    scale = (numbers.high - numbers.low) / numbers.size
    one = numbers.low + numbers.start * scale
    other = one + numbers.length * scale
    margin = _margin(numbers, np.abs(scale)) if is_resampled(numbers).any() else 0
    first = np.clip(np.ceil(np.minimum(one, other) - margin), begin, end - 1)
    last = np.clip(np.ceil(np.maximum(one, other) + margin), first + 1, end)
    return first.astype(np.int64), last.astype(np.int64)


def _margin(numbers: AxisMapping, scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many pixels are read at most to each side of a part."""
    stretch = np.where(numbers.antialias, np.maximum(scale, 1.0), 1.0)
    margin = _supports(numbers.filters) * stretch - scale / 2  # the outermost centres lie half a pixel inside
    in_float32 = (numbers.filters <= INTERP_NN) | (numbers.filters == INTERP_GAUSSIAN)  # their places are rounded
    margin = np.where(is_resampled(numbers), margin + np.where(in_float32, 1.5, 0.51), 0)
    furthest = np.maximum(np.abs(numbers.low), np.abs(numbers.high)).astype(np.float32)
    drift = numbers.size * np.spacing(furthest)  # of centres that are each computed from the one before, in float32
    return margin + np.where(numbers.filters == NEAREST_BY_STEPS, drift, 0)
