"""Hand-written resampling with Numba: the arithmetic of DALI's antialiased linear filter.

For each row of the result, the input rows are blended first, over contiguous memory, and then the columns, while the
blended row is in the cache. The values are then normalized, or rounded to bytes, and written to the batch.
"""

from __future__ import annotations

import math

import numba
import numpy as np


@numba.njit(nogil=True, cache=True)
def taps(low, scale, count, extent, mirrored):
    """Return the first input pixel and the weights of `count` output pixels, and the number of taps."""
    radius = max(scale, 1.0)
    width = math.ceil(2 * radius) + 1
    first = np.empty(count, np.int64)
    weights = np.zeros((count, max(width, 4)), np.float32)
    for number in range(count):
        at = count - 1 - number if mirrored else number
        center = low + (number + 0.5) * scale
        left = math.ceil(center - radius - 0.5)
        first[at] = min(max(left, 0), extent - 1)
        total = 0.0
        for pixel in range(left, left + width):
            total += max(0.0, 1 - abs(pixel + 0.5 - center) / radius)
        for pixel in range(left, left + width):
            there = min(max(pixel, 0), extent - 1) - first[at]  # pixels outside of the image repeat its edge
            weights[at, there] += max(0.0, 1 - abs(pixel + 0.5 - center) / radius) / total
    while width > 2 and not weights[:, width - 1].any():
        width -= 1
    return first, weights, width


@numba.njit(nogil=True, cache=True, inline="always")
def normalized(value, mean, factor):
    """Normalize a value."""
    return (value - mean) * factor


@numba.njit(nogil=True, cache=True, inline="always")
def rounded(value, mean, factor):  # noqa: ARG001  # same signature as `normalized`
    """Round a value to a byte."""
    return np.uint8(min(max(value + np.float32(0.5), np.float32(0)), np.float32(255)))


def resampler(finish):
    """Return a function that resamples an image with three channels and applies `finish` to the values."""

    @numba.njit(nogil=True, cache=True, fastmath=True)
    def resample(pixels, window, mirror, mean, factor, out):
        """Resample a window (top, left, height, width) of `pixels`, uint8 HWC, to `out`, HWC with any strides."""
        height, width = pixels.shape[:2]
        top, left, rows, columns = window
        first_y, weights_y, taps_y = taps(top, rows / out.shape[0], out.shape[0], height, False)
        first_x, weights_x, taps_x = taps(left, columns / out.shape[1], out.shape[1], width, mirror)
        lines = pixels.reshape(height, width * 3)
        begin = first_x.min() * 3
        size = min(first_x.max() + taps_x, width) * 3 - begin
        row = np.zeros(size + 12, np.float32)
        for y in range(out.shape[0]):
            first = first_y[y]
            a, b = lines[first, begin : begin + size], lines[min(first + 1, height - 1), begin : begin + size]
            wa, wb = weights_y[y, 0], weights_y[y, 1]
            if taps_y == 2:
                for i in range(size):
                    row[i] = a[i] * wa + b[i] * wb
            else:
                c, wc = lines[min(first + 2, height - 1), begin : begin + size], weights_y[y, 2]
                for i in range(size):
                    row[i] = a[i] * wa + b[i] * wb + c[i] * wc
            for k in range(3, taps_y):
                w = weights_y[y, k]
                if w:
                    a = lines[first + k, begin : begin + size]
                    for i in range(size):
                        row[i] += a[i] * w
            for x in range(out.shape[1]):
                i = 3 * first_x[x] - begin
                wa, wb = weights_x[x, 0], weights_x[x, 1]
                red = row[i] * wa + row[i + 3] * wb
                green = row[i + 1] * wa + row[i + 4] * wb
                blue = row[i + 2] * wa + row[i + 5] * wb
                if taps_x > 2:
                    wa, wb = weights_x[x, 2], weights_x[x, 3]
                    red += row[i + 6] * wa + row[i + 9] * wb
                    green += row[i + 7] * wa + row[i + 10] * wb
                    blue += row[i + 8] * wa + row[i + 11] * wb
                for k in range(4, taps_x):
                    w = weights_x[x, k]
                    red += row[i + 3 * k] * w
                    green += row[i + 3 * k + 1] * w
                    blue += row[i + 3 * k + 2] * w
                out[y, x, 0] = finish(red, mean[0], factor[0])
                out[y, x, 1] = finish(green, mean[1], factor[1])
                out[y, x, 2] = finish(blue, mean[2], factor[2])

    return resample


to_floats, to_bytes = resampler(normalized), resampler(rounded)
