"""Mapping of one axis of many images: a few numbers per image, from which executors compute pixels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.image.kernels.filter_taps import NEAREST_BY_STEPS
from penstock.types import INTERP_CUBIC, INTERP_GAUSSIAN, INTERP_LANCZOS3, INTERP_LINEAR, INTERP_NN

# NumPy needs 13 us to compare an array with a member of an enumeration, and 1 us with an int.
_NN, _LINEAR, _CUBIC, _LANCZOS3, _GAUSSIAN = map(
    int, (INTERP_NN, INTERP_LINEAR, INTERP_CUBIC, INTERP_LANCZOS3, INTERP_GAUSSIAN)
)

# Most pixels that are summed for a pixel of the result. In float32, sums of more terms lose more than a thousandth, and
# the time for ROIs far outside of an image grows with their distance.
MAX_TAPS = 1 << 20

Rows = Any
"""One number per row: a NumPy array, or a JAX array while the device program is traced."""


class AxisMapping(NamedTuple):
    """Mapping of an axis: resampling, then a window, then mirroring. Each field has one entry per row.

    Args:
        begin: First pixel of the input that may be read.
        end: One past the last pixel of the input that may be read.
        low: Start of the ROI that is resampled, in pixels from the edge of the image.
        high: End of the ROI; less than `low` if it is mirrored.
        size: Number of pixels that the ROI is resampled to.
        start: First resampled pixel of the window; outside of [0, size) if the window leaves the image.
        length: Number of pixels in the window.
        mirrored: True if the window is reversed.
        filters: Interpolation, a value of `penstock.types` or `NEAREST_BY_STEPS`.
        antialias: True if the filter is stretched when the image shrinks.
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
        """Return the mappings of some rows."""
        return AxisMapping(*[field[rows] for field in self])

    def matrix(self) -> NDArray[np.float64]:
        """Return the fields as columns of float64 (rows, 10), the form that compiled loops take."""
        result = np.empty((len(self.begin), len(self)))
        for column, field in enumerate(self):
            result[:, column] = field
        return result


def where(condition: Rows, one: Rows, other: Rows) -> Rows:
    """Return `np.where` for arrays whose type is `Any`."""
    where: Any = np.where
    return where(condition, one, other)


def identity(extents: Rows) -> AxisMapping:
    """Return mappings that change nothing.

    >>> identity(np.array([640, 480])).length.tolist()
    [640, 480]
    """
    none, no, linear = _defaults(len(extents))
    return AxisMapping(none, extents, none, extents, extents, none, extents, no, linear, no)


@lru_cache(maxsize=16)
def _defaults(rows: int) -> tuple[Rows, Rows, Rows]:
    """Return zeros, False and INTERP_LINEAR for each row, in shared, read-only arrays."""
    result = np.zeros(rows, np.int32), np.zeros(rows, np.bool_), np.full(rows, _LINEAR, np.int32)
    for array in result:
        array.flags.writeable = False
    return result


def crop(xp: Any, numbers: AxisMapping, first: Rows, length: Rows) -> AxisMapping:
    """Cut a window of `length` pixels that starts at `first`, in the present order of the pixels."""
    after: Rows = numbers.length - first - length
    # Constants stay NumPy arrays while JAX traces, so that executors can still read their values.
    known = all(isinstance(field, np.ndarray) for field in (after, numbers.mirrored))
    where: Any = np.where if known else xp.where
    return numbers._replace(start=numbers.start + where(numbers.mirrored, after, first), length=length)


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
    """Resample windows from `low` to `high`, in pixels of the window, to `size` pixels.

    Args:
        numbers: Windows that are neither resampled nor mirrored, and inside of the image.
        low: Start of the ROI.
        high: End of the ROI.
        size: Number of pixels of the result.
        filters: Interpolation.
        antialias: Stretch filters when the axis shrinks.
        by_steps: Use `NEAREST_BY_STEPS` for INTERP_NN.
        origin: First pixel of the window that is read, from `origins`.
    """
    nearest = filters == _NN
    counted = nearest | (filters == _GAUSSIAN)
    # DALI rounds the ROI to float32 in pixels of the window, so this comes before the shift to pixels of the image.
    low, high = (where(counted, np.float32(end), end) for end in (low, high))
    if by_steps:
        filters = filters + (NEAREST_BY_STEPS - _NN) * nearest
    first: Rows = numbers.begin + numbers.start
    nothing: Rows = np.zeros(len(size), np.int32)
    # Filters do not read beyond the window, as if it had been cut out first: operators give the same result unfused.
    shrinks = (size < abs(high - low)) & antialias
    end = first + numbers.length
    return AxisMapping(
        first + origin, end, low + first, high + first, size, nothing, size, nothing != 0, filters, shrinks
    )


def depends_on_origin(filters: Rows) -> Rows:
    """Return True for rows whose coordinates depend on the pixel that they are counted from."""
    return (filters == _NN) | (filters == _GAUSSIAN)


def is_linear(numbers: AxisMapping) -> bool:
    """Return True if all rows use the linear filter."""
    return bool((numbers.filters == _LINEAR).all())


def origins(xp: Any, rows: Sequence[Rows], columns: Sequence[Rows], antialias: bool) -> tuple[Rows, Rows]:
    """Return the pixels from which DALI counts coordinates along the height and along the width.

    They matter for INTERP_NN and INTERP_GAUSSIAN, whose float32 coordinates depend on the origin. DALI counts the axis
    that it resamples last from the first pixel that it reads, the other axis from the edge of the image. It resamples
    in the order that it estimates to be cheaper.

    Args:
        xp: Array namespace.
        rows: Height, start and end of the ROI, number of pixels of the result, and filter.
        columns: The same for the width.
        antialias: Stretch filters when an axis shrinks.
    """
    (height, top, bottom, tall, by_rows), (width, left, right, wide, by_columns) = rows, columns
    bell = (by_rows == _GAUSSIAN) & (by_columns == _GAUSSIAN)
    either = bell | ((by_rows == _NN) & (by_columns == _NN))

    def read(extent: Rows, low: Rows, high: Rows, size: Rows) -> tuple[Rows, Rows, Rows]:
        """Return the first pixel that is read, the number of pixels that are read, and the number of taps."""
        reach = xp.where(bell, xp.maximum(abs(high - low) / size, 1.0) if antialias else 1.0, 0.0)
        first = xp.clip((xp.minimum(low, high) - reach) // 1, 0, extent - 1)
        return first, xp.minimum(extent, (xp.maximum(low, high) + reach) // 1 + 1) - first, xp.where(bell, 2 * reach, 1)

    first_row, read_rows, down = read(height, top, bottom, tall)
    first_column, read_columns, across = read(width, left, right, wide)
    # The constants are those of DALI's cost estimate for its CPU resampling.
    height_first = (down + 3) * read_columns * tall + 1.4 * across * tall * wide
    height_first = height_first < (1.4 * across + 3) * read_rows * wide + down * tall * wide
    first_row = xp.where(either & ~height_first, first_row, 0)
    first_column = xp.where(either & height_first, first_column, 0)
    return first_row.astype(np.int32), first_column.astype(np.int32)


def downscaled(numbers: AxisMapping, parts: Rows, missing: Rows) -> AxisMapping:
    """Adapt mappings to images that are decoded at `1/parts` of their size, rounded up.

    Args:
        numbers: Mappings in pixels of the whole images.
        parts: Pixels of the whole image per pixel of the decoded one.
        missing: Pixels by which the first decoded pixel stands for fewer than `parts`, because it is at the end of
            the stored axis.
    """
    begin, end, low, high = (field + missing for field in (numbers.begin, numbers.end, numbers.low, numbers.high))
    return numbers._replace(begin=begin // parts, end=-(-end // parts), low=low / parts, high=high / parts)


def is_resampled(numbers: AxisMapping) -> NDArray[np.bool_]:
    """Return True for rows whose pixels are computed, False if they are only copied."""
    # INTERP_GAUSSIAN smooths even at the same size.
    same = numbers.size == numbers.end - numbers.begin
    same &= (numbers.low == numbers.begin) & (numbers.high == numbers.end)
    return ~same | (numbers.filters == _GAUSSIAN)


def most_taps(numbers: AxisMapping) -> int:
    """Return the largest number of taps of any row."""
    return int(taps_per_row(numbers).max(initial=2))


def taps_per_row(numbers: AxisMapping) -> NDArray[np.int64]:
    """Return an upper bound of the number of taps inside of the image, per row."""
    stretch = np.where(numbers.antialias, np.maximum(np.abs(numbers.high - numbers.low) / numbers.size, 1.0), 1.0)
    taps = (2 * _supports(numbers.filters) * stretch).astype(np.int64) + 2
    return np.minimum(taps, np.maximum(numbers.end - numbers.begin, 2))


def check_taps(low: Rows, high: Rows, size: Rows, filters: Rows) -> None:
    """Check that antialiasing filters have at most `MAX_TAPS` taps.

    Args:
        low: Start of the ROI.
        high: End of the ROI.
        size: Number of pixels of the result.
        filters: Interpolation.

    Raises:
        ValueError: They have more.
    """
    extents = np.abs(high - low)
    taps = np.where(filters == _NN, 1, 2 * _supports(filters) * extents / size)
    for row in np.flatnonzero(taps > MAX_TAPS)[:1]:
        raise ValueError(
            f"{extents[row]:,.0f} pixels cannot be resized to {size[row]}: each pixel of the result would be a sum of "
            f"{taps[row]:,.0f} pixels, more than {MAX_TAPS:,}"
        )


def _supports(filters: Rows) -> NDArray[np.float64]:
    """Return the radius of filters in pixels, before they are stretched."""
    return np.where(filters == _CUBIC, 2.0, np.where(filters == _LANCZOS3, 3.0, 1.0))


def max_filter_support(*filters: Rows) -> float:
    """Return the largest radius of some filters, in pixels, before they are stretched."""
    # INTERP_NN reads one pixel. The support of INTERP_GAUSSIAN is 1 and rounded outward.
    known = {_NN: 0.5, _CUBIC: 2.0, _LANCZOS3: 3.0, _GAUSSIAN: 1.5}
    return max(known.get(kind, 1.0) for array in filters for kind in np.unique(array).tolist())


def read_range(numbers: AxisMapping) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return bounds of the pixels that are read: the first, and one past the last. They are inside of the image."""
    begin, end = numbers.begin, numbers.end
    scale = (numbers.high - numbers.low) / numbers.size
    one = numbers.low + numbers.start * scale
    other = one + numbers.length * scale
    margin = _margin(numbers, np.abs(scale)) if is_resampled(numbers).any() else 0
    first = np.clip(np.ceil(np.minimum(one, other) - margin), begin, end - 1)
    last = np.clip(np.ceil(np.maximum(one, other) + margin), first + 1, end)
    return first.astype(np.int64), last.astype(np.int64)


def _margin(numbers: AxisMapping, scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the number of pixels that are read at most beyond each end of an ROI."""
    stretch = np.where(numbers.antialias, np.maximum(scale, 1.0), 1.0)
    # The outermost pixels of the result have their centers half a pixel inside.
    margin = _supports(numbers.filters) * stretch - scale / 2
    # These filters compute centers in float32, which may round to the next pixel.
    in_float32 = (numbers.filters <= _NN) | (numbers.filters == _GAUSSIAN)
    margin = np.where(is_resampled(numbers), margin + np.where(in_float32, 1.5, 0.51), 0)
    furthest = np.maximum(np.abs(numbers.low), np.abs(numbers.high)).astype(np.float32)
    # NEAREST_BY_STEPS adds the step to the previous center in float32, so rounding errors accumulate over the axis.
    drift = numbers.size * np.spacing(furthest)
    return margin + np.where(numbers.filters == NEAREST_BY_STEPS, drift, 0)
