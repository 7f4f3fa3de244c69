"""Compiled loops over one row of bytes, of which each becomes the entry of a table. `kernels` calls them."""

from __future__ import annotations

import numpy as np

from penstock.data.source import Array
from penstock.native.compiled import Compiled


@Compiled
def look_up_one(
    pixels: Array,
    at: np.uint64,
    by: np.uint64,
    table: Array,
    entry: np.uint64,
    low: int,
    high: int,
    width: int,
    out: Array,
    to: np.uint64,
    step: np.uint64,
) -> None:
    """One channel of a row: per pixel the entry of a table.

    Indices are uint64 here and in `look_up_three`: for a signed one, numba asks whether it counts from the end.

    Args:
        pixels: uint8, the memory to read.
        at: where the first pixel is.
        by: the distance between pixels; distances that go back wrap around.
        table: what becomes of each byte, and then of what lies outside.
        entry: where the channel's entries begin.
        low: the first pixel inside the image.
        high: the first one after it.
        width: how many pixels there are.
        out: the memory to write.
        to: where the first pixel goes.
        step: the distance between pixels.
    """
    outside = entry + np.uint64(256)
    for x in range(np.uint64(0), np.uint64(low)):
        out[to + x * step] = table[outside]
    for x in range(np.uint64(low), np.uint64(high)):
        out[to + x * step] = table[entry + np.uint64(pixels[at + x * by])]
    for x in range(np.uint64(high), np.uint64(width)):
        out[to + x * step] = table[outside]


@Compiled
def look_up_three(
    pixels: Array,
    at: np.uint64,
    by: np.uint64,
    channel: np.uint64,
    table: Array,
    low: int,
    high: int,
    width: int,
    out: Array,
    to: np.uint64,
    step: np.uint64,
    plane: np.uint64,
) -> None:
    """`look_up_one` for three channels, the usual case, which is faster than one after the other.

    Their distance is `channel` in the memory that is read, and `plane` in the memory that is written.
    """
    one, two = np.uint64(257), np.uint64(514)
    red, green, blue = table[np.uint64(256)], table[one + np.uint64(256)], table[two + np.uint64(256)]
    for x in range(np.uint64(0), np.uint64(low)):
        i = to + x * step
        out[i], out[i + plane], out[i + plane + plane] = red, green, blue
    for x in range(np.uint64(low), np.uint64(high)):
        k, i = at + x * by, to + x * step
        out[i] = table[np.uint64(pixels[k])]
        out[i + plane] = table[one + np.uint64(pixels[k + channel])]
        out[i + plane + plane] = table[two + np.uint64(pixels[k + channel + channel])]
    for x in range(np.uint64(high), np.uint64(width)):
        i = to + x * step
        out[i], out[i + plane], out[i + plane + plane] = red, green, blue
