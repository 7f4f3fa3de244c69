"""Separable resampling: the arithmetic of DALI's resize family, in one pass from pixels to the batch.

Pixel centres lie at halves. An output pixel is the weighed mean of the pixels around the place it comes from; the
weights are normalised over the whole support of the filter, and where that leaves the image, the pixel at the edge
stands for those that are not there. (Pillow normalises over what is there instead.) When an image shrinks and
`antialias` is set, the filter is stretched so that no pixel is passed over.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from penstock.data.source import Array
from penstock.ops.compiled import Compiled
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
def resample(  # noqa: C901  # one loop nest: a call per row would cost more than the row
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
    left = first_x.min()
    wide = ((first_x + count_x).max() - left) * channels
    width = columns.length
    mixed = np.empty(wide, np.float32)
    line = np.empty(width * channels, np.float32)
    for y in range(rows.length):
        source = pixels[first_y[y], left * channels : left * channels + wide]
        tap = weight_y[y, 0]
        for i in range(wide):
            mixed[i] = np.float32(source[i]) * tap
        for k in range(1, count_y[y]):
            source = pixels[first_y[y] + k, left * channels : left * channels + wide]
            tap = weight_y[y, k]
            for i in range(wide):
                mixed[i] += np.float32(source[i]) * tap
        if channels == 3:
            for x in range(width):
                at = (first_x[x] - left) * 3
                red = green = blue = np.float32(0)
                for k in range(count_x[x]):
                    tap = weight_x[x, k]
                    red += mixed[at] * tap
                    green += mixed[at + 1] * tap
                    blue += mixed[at + 2] * tap
                    at += 3
                line[3 * x] = red
                line[3 * x + 1] = green
                line[3 * x + 2] = blue
        else:
            for x in range(width):
                for c in range(channels):
                    at = (first_x[x] - left) * channels + c
                    total = np.float32(0)
                    for k in range(count_x[x]):
                        total += mixed[at + k * channels] * weight_x[x, k]
                    line[x * channels + c] = total
        if quantize:
            for i in range(width * channels):
                line[i] = np.float32(np.uint8(min(max(line[i] + np.float32(0.5), np.float32(0)), np.float32(255))))
        for c in range(channels):
            for x in range(width):
                out[y, x, c] = (line[x * channels + c] - mean[c]) * factor[c] + shift
