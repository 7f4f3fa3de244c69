"""Compiled loops that load image planes as floats and store them as bytes or floats. Passes call them."""

from typing import Any

import numpy as np

from penstock.core import Array
from penstock.native.compiled import Compiled


@Compiled
def mirror_index(at: int, size: int) -> int:
    """Return the index of the pixel inside that an index refers to if the image is mirrored without its edge pixels."""
    period = 2 * size - 2
    # Most indices are outside by less than one period: they skip the division, which takes longer than the rest.
    if not -size < at <= period:
        at = at % period if size > 1 else 0
    at = abs(at)
    return min(at, period - at)


@Compiled
def load_row(pixels: Array, at: int, place: Array, channels: int, row: Array) -> None:
    """Load one row of a plane as floats with interleaved channels; `at` is the offset of its first element."""
    # A contiguous slice has a constant stride of 1, which vectorizes; other layouts take the general loop.
    if place[2] == channels and place[3] == 1:
        values = pixels[at : at + row.shape[0]]
        for i in range(row.shape[0]):
            row[i] = np.float32(values[i])
    else:
        for x in range(row.shape[0] // channels):
            for c in range(channels):
                row[x * channels + c] = np.float32(pixels[at + x * place[2] + c * place[3]])


@Compiled
def load_plane(pixels: Array, place: Array, size: Array, plane: Array) -> None:
    """Load a plane as floats, row by row, with interleaved channels.

    Args:
        pixels: The memory.
        place: Offset of the first element, then the strides of rows, columns and channels.
        size: Height, width, channels.
        plane: float32, receives the pixels.
    """
    width, channels = size[1], size[2]
    across = width * channels
    for y in range(size[0]):
        load_row(pixels, place[0] + y * place[1], place, channels, plane[y * across : (y + 1) * across])


@Compiled
def store_plane(row: Array, y: int, channels: int, out: Array, place: Array) -> None:
    """Store one row with interleaved channels in an image. Bytes are truncated, not rounded."""
    to = place[0] + y * place[1]
    if place[2] == channels and place[3] == 1:
        values = out[to : to + row.shape[0]]
        for i in range(row.shape[0]):
            values[i] = row[i]
    else:
        for x in range(row.shape[0] // channels):
            for c in range(channels):
                out[to + x * place[2] + c * place[3]] = row[x * channels + c]


@Compiled
def store_rows(rows: Array, y: int, across: int, channels: int, out: Array, place: Array) -> None:
    """Store consecutive rows of `across` elements, beginning with row y of the image."""
    # The rows are one long row only if the pixels of a row have no gaps: in HCW, the distance between rows is the same.
    if place[1] == across and place[2] == channels and (place[3] == 1 or channels == 1):
        store_plane(rows, y, channels, out, place)
        return
    for k in range(rows.shape[0] // max(across, 1)):
        store_plane(rows[k * across : (k + 1) * across], y + k, channels, out, place)


@Compiled
def multiply_add(values: Array, weight: float, first: bool, total: Array) -> None:
    """Multiply values by a weight and add them to a total, which the first term overwrites."""
    if first:
        for i in range(total.shape[0]):
            total[i] = values[i] * weight
    else:
        for i in range(total.shape[0]):
            total[i] += values[i] * weight


@Compiled
def weigh_five(total: Array, begins: bool, lines: Array, starts: Array, weights: Array, finite: bool) -> None:
    """Add up to five weighted slices of `lines` to a total, which starts from zero if `begins`.

    If pixels may be infinite or NaN, only the first slice is added, because a weight of 0 for an unused slice would
    turn them into NaN.
    """
    size = total.shape[0]
    a, b, c, d, e = starts[0], starts[1], starts[2], starts[3], starts[4]
    wa, wb, wc, wd, we = weights[0], weights[1], weights[2], weights[3], weights[4]
    va, vb, vc, vd = lines[a : a + size], lines[b : b + size], lines[c : c + size], lines[d : d + size]
    ve = lines[e : e + size]
    if begins:
        total[:] = 0
    # Five terms per pass: `total` is read and written once for all of them.
    if finite:
        for i in range(size):
            total[i] = total[i] + va[i] * wa + vb[i] * wb + vc[i] * wc + vd[i] * wd + ve[i] * we
    else:
        for i in range(size):
            total[i] = total[i] + va[i] * wa


@Compiled
def store_limited(row: Array, rounding: Any, limits: Array, y: int, channels: int, out: Array, place: Array) -> None:
    """Store a row after adding a rounding term and clipping it."""
    low, high = limits[0], limits[1]
    if place[2] == channels and place[3] == 1:
        to = place[0] + y * place[1]
        values = out[to : to + row.shape[0]]
        for i in range(row.shape[0]):
            # In place, so that the sum keeps the dtype of `row`: numba promotes the sum of two int16 to int64.
            row[i] += rounding
            values[i] = min(max(row[i], low), high)
    else:
        for i in range(row.shape[0]):
            row[i] += rounding
            row[i] = min(max(row[i], low), high)
        store_plane(row, y, channels, out, place)


@Compiled
def load_volume(pixels: Array, places: Array, sizes: Array, volume: Array) -> None:
    """Load consecutive planes as floats, one after the other."""
    count = volume.shape[0] // places.shape[0]
    for z in range(places.shape[0]):
        load_plane(pixels, places[z], sizes[z], volume[z * count : (z + 1) * count])


@Compiled
def store_volume(volume: Array, sizes: Array, out: Array, places: Array) -> None:
    """Store all rows of consecutive planes."""
    height, across, channels = sizes[0, 0], sizes[0, 1] * sizes[0, 2], sizes[0, 2]
    for z in range(places.shape[0]):
        for y in range(height):
            row = (z * height + y) * across
            store_plane(volume[row : row + across], y, channels, out, places[z])
