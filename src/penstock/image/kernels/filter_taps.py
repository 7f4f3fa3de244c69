"""Compiled loops for resampling filters: the taps of each output pixel of an axis, and their weights."""

import math
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.image.kernels.clip import clip
from penstock.native.compiled import Compiled, precompile
from penstock.types import INTERP_CUBIC, INTERP_GAUSSIAN, INTERP_LANCZOS3, INTERP_NN

# Plain integers: compiled loops cannot read enum members.
_NN, _CUBIC, _LANCZOS, _GAUSSIAN = map(int, (INTERP_NN, INTERP_CUBIC, INTERP_LANCZOS3, INTERP_GAUSSIAN))

# Columns of an axis mapping, in the order of the fields of `penstock.image.describe.axis_mapping.AxisMapping`.
BEGIN, END, LOW, HIGH, SIZE, START, LENGTH, MIRRORED, FILTER, ANTIALIAS = range(10)

# A pixel of the result with at least this many taps, all beyond one edge of the image, is the edge pixel. This bounds
# the time for ROIs that are far outside; for fewer taps, the weights keep the rounding errors of their sum.
_MANY = 8192

# Constant of the compiled variants (see `resample_rows.blending`): False compiles code for triangles only.
ANY_FILTER = True


@Compiled
def filter_support(kind: int) -> float:
    """Return the radius of a filter before it is stretched, in pixels."""
    if kind == _CUBIC:
        return 2.0
    return 3.0 if kind == _LANCZOS else 1.0


@Compiled
def _curve(kind: int, x: float) -> float:
    """Return the value of a filter at distance x: Keys' cubic with a = -1/2, or Lanczos with three lobes."""
    x = abs(x)
    if kind == _CUBIC:
        if x < 1:
            return (1.5 * x - 2.5) * x * x + 1
        return ((-0.5 * x + 2.5) * x - 4) * x + 2 if x < 2 else 0.0
    if x < 1e-9:
        return 1.0
    # sin(y) / y is undefined at 0, which the branch above handles.
    y = math.pi * x
    return 3 * math.sin(y) * math.sin(y / 3) / (y * y) if x < 3 else 0.0


@Compiled
def filter_weight(kind: int, x: float) -> float:
    """Return the weight at distance x: a triangle, or a tabulated curve with linear interpolation between entries.

    As in DALI, the table has an entry at every 1/32 of a pixel; `_bell_at` has the same resolution.
    """
    if ANY_FILTER and kind in (_CUBIC, _LANCZOS):
        low = math.floor(x * 32)
        a, b = _curve(kind, low / 32), _curve(kind, (low + 1) / 32)
        return a + (x * 32 - low) * (b - a)
    weight = 1 - abs(x)
    return weight if weight > 0 else 0.0


@Compiled
def _nearest(axis: Array, first: Array, counts: Array, weights: Array) -> None:
    """Compute `filter_taps` for nearest-neighbor interpolation.

    The arithmetic is float32, as in DALI: if a center is on the edge between two pixels, rounding decides. DALI
    computes each center along the width independently, and accumulates centers along the other axes.
    """
    begin, end, length = np.int64(axis[BEGIN]), np.int64(axis[END]), np.int64(axis[LENGTH])
    start, by_steps = np.int64(axis[START]), axis[FILTER] == NEAREST_BY_STEPS
    half, low = np.float32(0.5), np.float32(axis[LOW] - axis[BEGIN])
    scale = (np.float32(axis[HIGH] - axis[BEGIN]) - low) / np.float32(axis[SIZE])
    reached = low + half * scale
    # The window may start inside the resized image; DALI accumulates from the first pixel, so the same rounding errors
    # must be repeated here.
    for _ in range(start):
        reached += scale
    for number in range(length):
        at = length - 1 - number if axis[MIRRORED] else number
        center = reached if by_steps else low + (np.float32(start + number) + half) * scale
        reached += scale
        first[at] = clip(begin + np.int64(math.floor(center)), begin, end - 1)
        counts[at] = 1
        weights[at, 0] = 1
        for k in range(1, weights.shape[1]):
            weights[at, k] = 0


@Compiled
def _bell_at(entry: Any) -> float:
    """Return the Gaussian exp(-4 x * x) at a table entry, linear between entries.

    Entry 0 is x = -1, entry 64 is x = 1.
    """
    low = math.floor(entry)
    x, y = low / 32 - 1, (low + 1) / 32 - 1
    a = math.exp(-4 * x * x) if low <= 64 else 0.0
    b = math.exp(-4 * y * y) if low < 64 else 0.0
    return a + (entry - low) * (b - a)


@Compiled
def _bell(axis: Array, first: Array, counts: Array, weights: Array) -> None:
    """Compute `filter_taps` for a Gaussian.

    The arithmetic is float32, as in DALI: the Gaussian is not 0 where it is cut off, so it matters which pixels are
    just within its support.
    """
    begin, end, length = np.int64(axis[BEGIN]), np.int64(axis[END]), np.int64(axis[LENGTH])
    start = np.int64(axis[START])
    half, low = np.float32(0.5), np.float32(axis[LOW] - axis[BEGIN])
    scale = (np.float32(axis[HIGH] - axis[BEGIN]) - low) / np.float32(axis[SIZE])
    radius = abs(scale) if axis[ANTIALIAS] else np.float32(1)
    sigma = np.float32(np.float64(half * radius) / math.sqrt(2))
    density = np.float32(64) / (np.float32(4 * math.sqrt(2)) * sigma)  # of entries of the table, per pixel
    many = np.int64(math.ceil(np.float32(64) / density))
    low += half * scale - half - np.float32(32) / density
    for number in range(length):
        at = length - 1 - number if axis[MIRRORED] else number
        edge = np.float32(start + number) * scale + low
        left = np.int64(math.ceil(edge))
        inset = np.float32(left) - edge
        left += begin
        right = left + many - 1
        first[at] = clip(left, begin, end - 1)
        counts[at] = clip(right, begin, end - 1) - first[at] + 1
        for k in range(weights.shape[1]):
            weights[at, k] = 0
        if many >= _MANY and (right <= begin or left >= end - 1):
            weights[at, 0] = 1
            continue
        total = 0.0
        for k in range(many):
            value = _bell_at(np.float64((inset + np.float32(k)) * density))
            # Taps outside of the ROI count for the edge pixel, so their weights are added to its weight.
            weights[at, clip(left + k, begin, end - 1) - first[at]] += value
            total += value
        for k in range(counts[at]):
            weights[at, k] /= total


@precompile("f8[1] i8[1] i8[1] f4[2]")
@Compiled
def filter_taps(axis: Array, first: Array, counts: Array, weights: Array) -> None:
    """Compute the taps of each output pixel of an axis.

    Args:
        axis: Axis mapping, one row of numbers.
        first: int64, receives per output pixel the first source pixel that has a weight.
        counts: int64, receives the number of taps.
        weights: float32 (pixels, taps), receives the weights; zero from `counts` on.
    """
    begin, end, length, kind = int(axis[BEGIN]), int(axis[END]), int(axis[LENGTH]), int(axis[FILTER])
    if ANY_FILTER and kind in (_NN, NEAREST_BY_STEPS):
        _nearest(axis, first, counts, weights)
        return
    if ANY_FILTER and kind == _GAUSSIAN:
        _bell(axis, first, counts, weights)
        return
    scale = (axis[HIGH] - axis[LOW]) / axis[SIZE]
    # Antialiasing stretches the filter by the reduction factor; enlarging never shrinks it.
    stretch = abs(scale) if axis[ANTIALIAS] and abs(scale) > 1 else 1.0
    radius = filter_support(kind) * stretch if ANY_FILTER else stretch
    for number in range(length):
        at = length - 1 - number if axis[MIRRORED] else number
        center = axis[LOW] + (axis[START] + number + 0.5) * scale
        for k in range(weights.shape[1]):
            weights[at, k] = 0
        left = math.ceil(center - radius - 0.5)
        right = left + math.ceil(2 * radius) - 1
        first[at] = clip(left, begin, end - 1)
        counts[at] = clip(right, begin, end - 1) - first[at] + 1
        if right - left >= _MANY and (right <= begin or left >= end - 1):
            weights[at, 0] = 1
            continue
        total = 0.0
        for pixel in range(left, right + 1):
            value = filter_weight(kind, (pixel + 0.5 - center) / stretch)
            weights[at, clip(pixel, begin, end - 1) - first[at]] += value
            total += value
        for k in range(counts[at]):
            # A filter sampled at an arbitrary offset does not sum to exactly 1, which would change flat areas.
            weights[at, k] /= total


@precompile("f8[2] i8[2] i8[2] f4[3]")
@Compiled
def taps_of_rows(axes: Array, first: Array, counts: Array, weights: Array) -> None:
    """Compute `filter_taps` for many rows.

    The arrays have a leading axis of rows. Pixels past the end of a row get no weight.
    """
    for row in range(axes.shape[0]):
        length = int(axes[row, LENGTH])
        filter_taps(axes[row], first[row], counts[row], weights[row])
        first[row, length:], counts[row, length:], weights[row, length:] = 0, 0, 0


# INTER_NN with centers that are accumulated, as DALI does along all axes but the width.
NEAREST_BY_STEPS = -1
