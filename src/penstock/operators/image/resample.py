"""Separable resampling: the arithmetic of DALI's resize family, in one pass from pixels to the batch.

Pixel centres lie at halves. An output pixel is the weighed mean of the pixels around the place it comes from; the
weights are normalised over the whole support of the filter, and where that leaves the image, the pixel at the edge
stands for those that are not there. (Pillow normalises over what is there instead.) When an image shrinks and
`antialias` is set, the filter is stretched so that no pixel is passed over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from penstock.data.source import Array
from penstock.operators.compiled import Compiled
from penstock.types import INTERP_CUBIC, INTERP_GAUSSIAN, INTERP_LANCZOS3, INTERP_NN

_NN, _CUBIC, _LANCZOS, _GAUSSIAN = map(int, (INTERP_NN, INTERP_CUBIC, INTERP_LANCZOS3, INTERP_GAUSSIAN))


class Axis(NamedTuple):
    """What becomes of one axis of an image.

    Args:
        begin, end: the pixels that there are; nothing outside is read.
        low, high: the part that is resampled, in pixels from the image's edge; `low` above `high` mirrors it.
        size: to how many pixels it is resampled.
        start, length: which of these are wanted.
        mirrored: whether those are exchanged end for end.
        filter: an interpolation of `penstock.types`.
        antialias: whether the filter is stretched where the image shrinks.
    """

    begin: int
    end: int
    low: float
    high: float
    size: int
    start: int
    length: int
    mirrored: bool
    filter: int
    antialias: bool

    @property
    def resampled(self) -> bool:
        """Whether pixels are computed, not only picked. The bell weighs in its neighbours even at the same size."""
        same = self.size == self.end - self.begin and self.low == self.begin and self.high == self.end
        return not same or self.filter == _GAUSSIAN

    def cut(self, start: int, length: int) -> Axis:
        """This with fewer pixels wanted: `length` of them from number `start` on, as they now lie."""
        at = self.start + (self.length - start - length if self.mirrored else start)
        return self._replace(start=at, length=length)

    def picked(self) -> slice:
        """Which pixels of the image these are, if they are not resampled."""
        first = self.begin + self.start
        if not self.mirrored:
            return slice(first, first + self.length)
        return slice(first + self.length - 1, first - 1 if first else None, -1)


def whole(size: int) -> Axis:
    """An axis as it is."""
    return Axis(0, size, 0.0, float(size), size, 0, size, False, 1, False)


def resampled(extent: int, low: float, high: float, size: int, filters: Mapping[str, Any], *, antialias: bool) -> Axis:
    """An axis resampled from a part of it to a size.

    Args:
        extent: how many pixels there are.
        low: where the part begins.
        high: where it ends.
        size: to how many pixels.
        filters: the arguments `min_filter` and `mag_filter`, for an axis that shrinks and for one that grows.
        antialias: whether the filter is stretched where the axis shrinks.
    """
    smaller = size < abs(high - low)
    kind = int(np.ravel(filters["min_filter" if smaller else "mag_filter"])[0])
    return Axis(0, extent, low, high, size, 0, size, False, kind, antialias and smaller)


@Compiled
def support(kind: int) -> float:
    """How far a filter reaches to each side, before it is stretched."""
    if kind == _CUBIC:
        return 2.0
    return 3.0 if kind == _LANCZOS else 1.0


@Compiled
def weight(kind: int, x: float) -> float:
    """The value of a filter at distance x: Keys' cubic with a = -1/2, Lanczos' with three lobes, a Gauss bell."""
    x = abs(x)
    if kind == _CUBIC:
        if x < 1:
            return (1.5 * x - 2.5) * x * x + 1
        return ((-0.5 * x + 2.5) * x - 4) * x + 2 if x < 2 else 0.0
    if kind == _LANCZOS:
        if x < 1e-9:
            return 1.0
        y = math.pi * x
        return 3 * math.sin(y) * math.sin(y / 3) / (y * y) if x < 3 else 0.0
    if kind == _GAUSSIAN:
        # where its table ends, DALI's bell does not drop to 0 at once: it goes down over one entry of 64
        return math.exp(-4 * x * x) if x <= 1 else max(0.0, math.exp(-4) * (33 - 32 * x))
    return max(0.0, 1 - x)


@Compiled
def taps(axis: Axis) -> tuple[Array, Array, Array]:
    """Which pixels of an axis make each pixel that is wanted: the first, how many, and their weights."""
    scale = (axis.high - axis.low) / axis.size
    stretch = max(abs(scale), 1.0) if axis.antialias else 1.0
    radius = support(axis.filter) * stretch
    first = np.empty(axis.length, np.int64)
    counts = np.empty(axis.length, np.int64)
    weights = np.zeros((axis.length, int(2 * radius) + 2), np.float32)
    for number in range(axis.length):
        at = axis.length - 1 - number if axis.mirrored else number
        centre = axis.low + (axis.start + number + 0.5) * scale
        if axis.filter == _NN:
            first[at] = min(max(math.floor(centre), axis.begin), axis.end - 1)
            counts[at] = 1
            weights[at, 0] = 1
            continue
        left = math.ceil(centre - radius - 0.5)
        right = left + math.ceil(2 * radius) - 1
        total = 0.0
        for pixel in range(left, right + 1):
            total += weight(axis.filter, (pixel + 0.5 - centre) / stretch)
        first[at] = min(max(left, axis.begin), axis.end - 1)
        counts[at] = min(max(right, axis.begin), axis.end - 1) - first[at] + 1
        for pixel in range(left, right + 1):
            there = min(max(pixel, axis.begin), axis.end - 1)
            weights[at, there - first[at]] += weight(axis.filter, (pixel + 0.5 - centre) / stretch) / total
    return first, counts, weights


@Compiled
def blend_rows(pixels: Array, first: int, count: int, weights: Array, left: int, out: Array) -> None:
    """One row of the result, not yet resampled in width: the weighed sum of `count` rows of pixels.

    Few rows, the usual case, are summed in one pass: that is faster than to add them one after the other.

    Args:
        pixels: (rows, values).
        first: the first row that has a weight.
        count: how many rows have one.
        weights: float32, as many or more.
        left: the first value of a row that is needed.
        out: float32 (values that are needed,).
    """
    size = out.shape[0]
    right = left + size
    row = pixels[first, left:right]
    a = weights[0]
    if count == 1:
        for i in range(size):
            out[i] = np.float32(row[i]) * a
        return
    row_b, b = pixels[first + 1, left:right], weights[1]
    if count == 2:
        for i in range(size):
            out[i] = np.float32(row[i]) * a + np.float32(row_b[i]) * b
        return
    row_c, c = pixels[first + 2, left:right], weights[2]
    for i in range(size):
        out[i] = np.float32(row[i]) * a + np.float32(row_b[i]) * b + np.float32(row_c[i]) * c
    for k in range(3, count):
        row = pixels[first + k, left:right]
        a = weights[k]
        for i in range(size):
            out[i] += np.float32(row[i]) * a


@Compiled
def blend_columns(row: Array, channels: int, first: Array, count: Array, weights: Array, out: Array) -> None:
    """A row resampled in width.

    The first taps of three channels, the usual case, are written out: a loop over them costs more than they do.

    Args:
        row: float32, the channels of a pixel side by side; three pixels longer than what has a weight, and zero there.
        channels: how many there are.
        first: per pixel of the result the first value that has a weight.
        count: how many pixels have one.
        weights: float32 (pixels of the result, taps), zero from `count` on.
        out: float32, as `row`.
    """
    if channels == 3 and count.max() <= 2:
        for x in range(first.shape[0]):
            i, a, b = first[x], weights[x, 0], weights[x, 1]
            out[3 * x] = row[i] * a + row[i + 3] * b
            out[3 * x + 1] = row[i + 1] * a + row[i + 4] * b
            out[3 * x + 2] = row[i + 2] * a + row[i + 5] * b
    elif channels == 3 and weights.shape[1] >= 4:
        for x in range(first.shape[0]):
            i, a, b, c, d = first[x], weights[x, 0], weights[x, 1], weights[x, 2], weights[x, 3]
            red = row[i] * a + row[i + 3] * b + row[i + 6] * c + row[i + 9] * d
            green = row[i + 1] * a + row[i + 4] * b + row[i + 7] * c + row[i + 10] * d
            blue = row[i + 2] * a + row[i + 5] * b + row[i + 8] * c + row[i + 11] * d
            for k in range(4, count[x]):
                i = first[x] + 3 * k
                red += row[i] * weights[x, k]
                green += row[i + 1] * weights[x, k]
                blue += row[i + 2] * weights[x, k]
            out[3 * x], out[3 * x + 1], out[3 * x + 2] = red, green, blue
    else:
        for x in range(first.shape[0]):
            for channel in range(channels):
                i = first[x] + channel
                total = np.float32(0)
                for k in range(count[x]):
                    total += row[i + k * channels] * weights[x, k]
                out[x * channels + channel] = total


@Compiled
def resample(
    pixels: Array,
    channels: int,
    rows: Axis,
    columns: Axis,
    quantize: bool,
    mean: Array,
    factor: Array,
    shift: np.float32,
    out: Array,
) -> None:
    """Resample an image, and normalise it: ``out = (image - mean) * factor + shift``.

    Args:
        pixels: uint8 or float32 (height, width * channels).
        channels: how many there are.
        rows: what becomes of the height.
        columns: what becomes of the width.
        quantize: whether resampled values are rounded to 0..255 before they are normalised.
        mean: float32 (channels,).
        factor: float32 (channels,).
        shift: a number.
        out: uint8 or float32 (height, width, channels), in any order in memory; for uint8 `quantize` is set.
    """
    first_y, count_y, weight_y = taps(rows)
    first_x, count_x, weight_x = taps(columns)
    left = first_x.min() * channels
    needed = (first_x + count_x).max() * channels - left
    first_x = first_x * channels - left
    row = np.zeros(needed + 3 * channels, np.float32)
    line = np.empty(columns.length * channels, np.float32)
    for y in range(rows.length):
        blend_rows(pixels, first_y[y], count_y[y], weight_y[y], left, row[:needed])
        blend_columns(row, channels, first_x, count_x, weight_x, line)
        if quantize:
            for i in range(line.shape[0]):
                line[i] = np.float32(np.int32(min(max(line[i] + np.float32(0.5), np.float32(0)), np.float32(255))))
        for c in range(channels):
            mean_c, factor_c = mean[c], factor[c]
            for x in range(columns.length):
                out[y, x, c] = (line[x * channels + c] - mean_c) * factor_c + shift
