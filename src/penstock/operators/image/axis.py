"""What becomes of one axis of many images: ten numbers per image, from which executors make pixels.

=========  ===========================================================================================
BEGIN      the first pixel that there is; nothing before it is read
END        the first pixel after the last
LOW, HIGH  the part that is resampled, in pixels from the image's edge; LOW above HIGH mirrors it
SIZE       to how many pixels it is resampled
START      the first of these that is wanted; outside of [0, SIZE) where a window leaves the image
LENGTH     how many are wanted
MIRRORED   whether these are exchanged end for end
FILTER     an interpolation of `penstock.types`
ANTIALIAS  whether the filter is stretched where the image shrinks
=========  ===========================================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.operators.image.kernels import (
    ANTIALIAS,
    BEGIN,
    END,
    FILTER,
    HIGH,
    LENGTH,
    LOW,
    MIRRORED,
    SIZE,
    START,
)
from penstock.types import INTERP_CUBIC, INTERP_GAUSSIAN, INTERP_LANCZOS3, INTERP_LINEAR

Numbers = NDArray[np.float64]
"""(rows, 10)."""

Rows = NDArray[Any]
"""One number per row."""


def whole(extents: Rows) -> Numbers:
    """Axes as they are.

    >>> whole(np.array([640]))[0, [END, LENGTH]].tolist()
    [640.0, 640.0]
    """
    numbers = np.zeros((len(extents), 10))
    numbers[:, [END, HIGH, SIZE, LENGTH]] = np.asarray(extents)[:, None]
    numbers[:, FILTER] = INTERP_LINEAR
    return numbers


def cut(numbers: Numbers, first: Rows, length: Rows) -> Numbers:
    """Axes of which fewer pixels are wanted: `length` of them from number `first` on, as they now lie."""
    result = numbers.copy()
    behind = numbers[:, LENGTH] - first - length
    result[:, START] += np.where(numbers[:, MIRRORED] != 0, behind, first)
    result[:, LENGTH] = length
    return result


def mirror(numbers: Numbers, flags: Rows) -> Numbers:
    """Axes exchanged end for end where a flag is set."""
    result = numbers.copy()
    result[:, MIRRORED] = (numbers[:, MIRRORED] != 0) != flags
    return result


def resample(numbers: Numbers, low: Rows, high: Rows, size: Rows, filters: Rows, antialias: bool) -> Numbers:
    """Windows that are resampled: from `low` to `high`, in pixels of the window, to `size` pixels.

    Args:
        numbers: windows that are neither resampled nor mirrored, and lie inside.
        low: where the part begins.
        high: where it ends.
        size: to how many pixels.
        filters: which interpolation.
        antialias: whether filters are stretched where the axis shrinks.
    """
    first, length = numbers[:, BEGIN] + numbers[:, START], numbers[:, LENGTH]
    result = np.zeros_like(numbers)
    result[:, BEGIN], result[:, END] = first, first + length
    result[:, LOW], result[:, HIGH] = low + first, high + first
    result[:, SIZE] = result[:, LENGTH] = size
    result[:, FILTER] = filters
    result[:, ANTIALIAS] = antialias & (size < np.abs(high - low))
    return result


def is_resampled(numbers: Numbers) -> NDArray[np.bool_]:
    """Whether pixels are computed, not only picked. The bell weighs in its neighbours even at the same size."""
    same = numbers[:, SIZE] == numbers[:, END] - numbers[:, BEGIN]
    same &= (numbers[:, LOW] == numbers[:, BEGIN]) & (numbers[:, HIGH] == numbers[:, END])
    return ~same | (numbers[:, FILTER] == INTERP_GAUSSIAN)


def leaves(numbers: Numbers, first: Rows, length: Rows) -> NDArray[np.bool_]:
    """Whether a window is not all inside of what is wanted now."""
    return (first < 0) | (first + length > numbers[:, LENGTH])


def most_taps(numbers: Numbers) -> int:
    """How many pixels at most make one."""
    if not len(numbers):
        return 1
    stretch = np.abs(numbers[:, HIGH] - numbers[:, LOW]) / numbers[:, SIZE]
    stretch = np.where(numbers[:, ANTIALIAS] != 0, np.maximum(stretch, 1.0), 1.0)
    kinds = numbers[:, FILTER]
    reach = np.where(kinds == INTERP_CUBIC, 2.0, np.where(kinds == INTERP_LANCZOS3, 3.0, 1.0))
    return int(2 * np.max(reach * stretch)) + 2


def footprint(numbers: Numbers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which pixels are read at most: the first, and the one after the last. Both lie in the image."""
    begin, end = numbers[:, BEGIN], numbers[:, END]
    scale = (numbers[:, HIGH] - numbers[:, LOW]) / numbers[:, SIZE]
    one = numbers[:, LOW] + numbers[:, START] * scale
    other = one + numbers[:, LENGTH] * scale
    stretch = np.where(numbers[:, ANTIALIAS] != 0, np.maximum(np.abs(scale), 1.0), 1.0)
    margin = np.where(is_resampled(numbers), 3 * stretch + 1, 0)
    first = np.clip(np.floor(np.minimum(one, other) - margin), begin, end - 1)
    last = np.clip(np.ceil(np.maximum(one, other) + margin), begin + 1, end)
    return first.astype(np.int64), last.astype(np.int64)
