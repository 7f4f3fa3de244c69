"""The filters: which pixels of an axis make a pixel of the result, and with which weights. Compiled loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from penstock.core.columns import Array
from penstock.native.compiled import Compiled, precompile
from penstock.types import INTERP_CUBIC, INTERP_GAUSSIAN, INTERP_LANCZOS3, INTERP_NN

_NN, _CUBIC, _LANCZOS, _GAUSSIAN = map(int, (INTERP_NN, INTERP_CUBIC, INTERP_LANCZOS3, INTERP_GAUSSIAN))

BEGIN, END, LOW, HIGH, SIZE, START, LENGTH, MIRRORED, FILTER, ANTIALIAS = range(10)
"""The numbers of an axis, by column: the fields of `penstock.image.describe.axis_mapping.Numbers`."""

ANY_FILTER = True
"""Compile code for all filters, or for triangles alone: a constant of variants, see `kernels.blending`."""


@Compiled
def filter_support(kind: int) -> float:
    """How far a filter reaches to each side, before it is stretched."""
    if kind == _CUBIC:
        return 2.0
    return 3.0 if kind == _LANCZOS else 1.0


@Compiled
def _curve(kind: int, x: float) -> float:
    """A filter at distance x: Keys' cubic with a = -1/2, or Lanczos' with three lobes."""
    x = abs(x)
    if kind == _CUBIC:
        if x < 1:
            return (1.5 * x - 2.5) * x * x + 1
        return ((-0.5 * x + 2.5) * x - 4) * x + 2 if x < 2 else 0.0
    if x < 1e-9:
        return 1.0
    y = math.pi * x
    return 3 * math.sin(y) * math.sin(y / 3) / (y * y) if x < 3 else 0.0


@Compiled
def filter_weight(kind: int, x: float) -> float:
    """The weight at distance x: a triangle, or a curve of which DALI has a table, with straight lines between entries.

    There is an entry at every thirty-second of a pixel, as there is in `_bell_at`.
    """
    if ANY_FILTER and kind in (_CUBIC, _LANCZOS):
        low = math.floor(x * 32)
        a, b = _curve(kind, low / 32), _curve(kind, (low + 1) / 32)
        return a + (x * 32 - low) * (b - a)
    return max(0.0, 1 - abs(x))


@Compiled
def _nearest(axis: Array, first: Array, counts: Array, weights: Array) -> None:
    """`taps` where each pixel is made of one.

    Reckoned in float32 as DALI does: where a centre falls on the edge between two pixels, rounding chooses one. DALI
    computes centres along the width independently, and along other axes each from the one before.
    """
    begin, end, length = np.int64(axis[BEGIN]), np.int64(axis[END]), np.int64(axis[LENGTH])
    start, by_steps = np.int64(axis[START]), axis[FILTER] == NEAREST_BY_STEPS
    half, low = np.float32(0.5), np.float32(axis[LOW] - axis[BEGIN])
    scale = (np.float32(axis[HIGH] - axis[BEGIN]) - low) / np.float32(axis[SIZE])
    reached = low + half * scale
    for _ in range(start):
        reached += scale
    for number in range(length):
        at = length - 1 - number if axis[MIRRORED] else number
        centre = reached if by_steps else low + (np.float32(start + number) + half) * scale
        reached += scale
        pixel = max(begin + np.int64(math.floor(centre)), begin)
        first[at] = min(pixel, end - 1)
        counts[at] = 1
        weights[at, 0] = 1
        for k in range(1, weights.shape[1]):
            weights[at, k] = 0


@Compiled
def _bell_at(entry: Any) -> float:
    """The bell exp(-4 x * x) at an entry of a table: 0 is x = -1, 64 is x = 1; straight lines between entries."""
    low = math.floor(entry)
    x, y = low / 32 - 1, (low + 1) / 32 - 1
    a = math.exp(-4 * x * x) if low <= 64 else 0.0
    b = math.exp(-4 * y * y) if low < 64 else 0.0
    return a + (entry - low) * (b - a)


@Compiled
def _bell(axis: Array, first: Array, counts: Array, weights: Array) -> None:
    """`taps` of a Gauss bell.

    Reckoned in float32 as DALI does: the bell is not 0 where it ends, so that it matters which pixels it just reaches.
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
        first[at] = min(max(left, begin), end - 1)
        counts[at] = min(max(right, begin), end - 1) - first[at] + 1
        for k in range(weights.shape[1]):
            weights[at, k] = 0
        total = 0.0
        for k in range(many):
            value = _bell_at(np.float64((inset + np.float32(k)) * density))
            weights[at, min(max(left + k, begin), end - 1) - first[at]] += value
            total += value
        for k in range(counts[at]):
            weights[at, k] /= total


@precompile("f8[1] i8[1] i8[1] f4[2]")
@Compiled
def filter_taps(axis: Array, first: Array, counts: Array, weights: Array) -> None:
    """Which pixels of an axis make each pixel that is wanted.

    Args:
        axis: its numbers.
        first: int64, receives per pixel the first that has a weight.
        counts: int64, receives how many have one.
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
    stretch = max(abs(scale), 1.0) if axis[ANTIALIAS] else 1.0
    radius = filter_support(kind) * stretch
    for number in range(length):
        at = length - 1 - number if axis[MIRRORED] else number
        centre = axis[LOW] + (axis[START] + number + 0.5) * scale
        for k in range(weights.shape[1]):
            weights[at, k] = 0
        left = math.ceil(centre - radius - 0.5)
        right = left + math.ceil(2 * radius) - 1
        first[at] = min(max(left, begin), end - 1)
        counts[at] = min(max(right, begin), end - 1) - first[at] + 1
        total = 0.0
        for pixel in range(left, right + 1):
            value = filter_weight(kind, (pixel + 0.5 - centre) / stretch)
            weights[at, min(max(pixel, begin), end - 1) - first[at]] += value
            total += value
        for k in range(counts[at]):
            weights[at, k] /= total


@precompile("f8[2] i8[2] i8[2] f4[3]")
@Compiled
def taps_of_rows(axes: Array, first: Array, counts: Array, weights: Array) -> None:
    """`taps` for many rows; (rows, pixels) and (rows, pixels, taps). Pixels past the end of a row get no weight."""
    for row in range(axes.shape[0]):
        length = int(axes[row, LENGTH])
        filter_taps(axes[row], first[row], counts[row], weights[row])
        for pixel in range(length, first.shape[1]):
            first[row, pixel] = 0
            counts[row, pixel] = 0
            for k in range(weights.shape[2]):
                weights[row, pixel, k] = 0


NEAREST_BY_STEPS = -1
"""INTERP_NN with centres that are each computed from the one before, as DALI does along all axes but the width."""
