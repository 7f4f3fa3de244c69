"""Compiled loops for the median of small rectangles of bytes: many pixels at a time. `median` calls them."""

from __future__ import annotations

import numpy as np

from penstock.data.source import Array
from penstock.native.compiled import Compiled, ahead
from penstock.operators.image.planes import load_row, store

MOST = 255
"""Rectangles have at most this many pixels, as bytes count them."""

TOGETHER = 8192
"""So many bytes are computed together, or a row: they stay in the nearest cache."""


@ahead("u1[1] i8[2] i8[2] i8[2] u1[1] u1[2] u1[1] i8[2]")
@Compiled
def median_of_few(
    pixels: Array, place_in: Array, sizes: Array, radii: Array, plane: Array, lines: Array, out: Array, place_out: Array
) -> None:
    """Planes of bytes, each pixel the median of a rectangle of at most `MOST` pixels.

    Args:
        pixels: uint8.
        place_in: int64 (planes, 4): the first element, and the distances to the next row, column and channel.
        sizes: int64 (planes, 3): height, width, channels.
        radii: int64 (planes or 1, 2): of the rectangle, along columns and along rows.
        plane: uint8, for the largest plane with what is beyond its edges; overwritten.
        lines: uint8 (4, n), for rows that are computed together, with what is beyond their edges; overwritten.
        out: uint8.
        place_out: as `place_in`.
    """
    for n in range(place_in.shape[0]):
        r_y, r_x = radii[n % radii.shape[0]]
        height, width, channels = sizes[n, 0], sizes[n, 1], sizes[n, 2]
        before, inner = r_x * channels, width * channels
        across = inner + 2 * before
        for y in range(height + 2 * r_y):
            row = plane[y * across : (y + 1) * across]
            at = place_in[n, 0] + min(max(y - r_y, 0), height - 1) * place_in[n, 1]
            load_row(pixels, at, place_in[n], channels, row[before : before + inner])
            for i in range(before):
                row[i] = row[before + i % channels]
                row[before + inner + i] = row[before + inner - channels + i % channels]
        rows = max(lines.shape[1] // max(across, 1), 1)
        for first in range(0, height, rows):
            count = min(rows, height - first)
            seen, size = plane[first * across :], count * across
            if r_y == 1 and r_x == 1:
                median_of_nine(seen, across, channels, size, lines)
            else:
                median_by_bits(seen, across, channels, r_y, r_x, size, lines)
            for y in range(count):
                store(lines[0, y * across : y * across + inner], first + y, channels, out, place_out[n])


@Compiled
def median_of_nine(seen: Array, across: int, channels: int, size: int, lines: Array) -> None:
    """The median of three by three pixels: columns in order, then the middle one of their least, middle and greatest.

    Args:
        seen: uint8, rows with what is beyond their edges, one after the other; the first is above the first pixel.
        across: how many bytes a row has.
        channels: how many of them a pixel has.
        size: so many medians are found.
        lines: uint8 (4, n); the first receives the medians.
    """
    made, least, middle, greatest = lines[0], lines[1], lines[2], lines[3]
    one, two, three = seen[:size], seen[across : across + size], seen[2 * across : 2 * across + size]
    for i in range(size):
        a, b, c = one[i], two[i], three[i]
        low, high = min(a, b), max(a, b)
        least[i], middle[i], greatest[i] = min(low, c), max(low, min(high, c)), max(high, c)
    least_b, middle_b, greatest_b = least[channels:], middle[channels:], greatest[channels:]
    least_c, middle_c, greatest_c = least_b[channels:], middle_b[channels:], greatest_b[channels:]
    for i in range(size - 2 * channels):
        a = max(least[i], least_b[i], least_c[i])
        c = min(greatest[i], greatest_b[i], greatest_c[i])
        low, high = min(middle[i], middle_b[i]), max(middle[i], middle_b[i])
        b = max(low, min(high, middle_c[i]))
        low, high = min(a, b), max(a, b)
        made[i] = max(low, min(high, c))


@Compiled
def median_by_bits(seen: Array, across: int, channels: int, r_y: int, r_x: int, size: int, lines: Array) -> None:
    """The median of any rectangle, bit by bit: one is set where too few pixels are less without it.

    Args:
        seen: as for `median_of_nine`.
        across: likewise.
        channels: likewise.
        r_y: radius along columns.
        r_x: along rows.
        size: likewise.
        lines: likewise.
    """
    made, limit, counts = lines[0, :size], lines[1, :size], lines[2, :size]
    half, bit = np.uint8((2 * r_y + 1) * (2 * r_x + 1) // 2), np.uint8(128)
    made[:] = 0
    while bit > 0:
        counts[:] = 0
        for i in range(size):
            limit[i] = made[i] + bit
        for y in range(2 * r_y + 1):
            for x in range(2 * r_x + 1):
                start = y * across + x * channels
                values = seen[start : start + size]
                for i in range(size):
                    counts[i] += values[i] < limit[i]
        for i in range(size):
            made[i] += bit * (counts[i] <= half)
        bit = np.uint8(bit >> 1)
