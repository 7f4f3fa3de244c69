"""Bytes, and what a table has for each."""

from __future__ import annotations

import numpy as np

from penstock.core.columns import Array
from penstock.native.compiled import Compiled, precompile


@precompile(*(f"u1[1] u{size}[1] u{size}[1]" for size in (1, 4)))
@Compiled
def look_up_bytes(numbers: Array, entries: Array, out: Array) -> None:
    """The entries that bytes count.

    Args:
        numbers: uint8.
        entries: (256,), unsigned integers, the bits of any dtype.
        out: as many as `numbers`, receives them.
    """
    for i in range(numbers.shape[0]):
        out[i] = entries[numbers[i]]


_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)
_HALF = np.float32(0.49999997)
"""The number below a half: with a half, the number below a half would become 1."""


@Compiled
def map_one_channel(
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
def map_three_channels(
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


@Compiled
def round_to_limits(value: np.float32, low: np.float32, high: np.float32) -> np.uint8:
    """To the nearest byte within limits; `low` for NaN."""
    return np.uint8(np.int32(min(max(low, value), high) + _HALF))


@Compiled
def scale_bytes(pixels: Array, at: np.uint64, terms: Array, out: Array, to: np.uint64, count: int) -> None:
    """What `colour` makes of bytes by SCALE and HALVES_AWAY, many at a time, which is faster than a table."""
    mean, factor, shift, low, high = terms[0, 0], terms[0, 1], terms[0, 2], terms[1, 0], terms[1, 1]
    for i in range(np.uint64(count)):
        out[to + i] = round_to_limits((np.float32(pixels[at + i]) - mean) * factor + shift, low, high)


@Compiled
def mix_bytes(pixels: Array, read: int, terms: Array, out: Array, write: int, count: int) -> None:
    """What `colour` makes of pixels of three bytes by MIX, SCALE and HALVES_AWAY, likewise."""
    r, g, b = terms[0, 0], terms[0, 1], terms[0, 2]
    r0, r1, r2, g0, g1, g2, b0, b1, b2 = r[0], r[1], r[2], g[0], g[1], g[2], b[0], b[1], b[2]
    mean, factor, shift, low, high = terms[1, 0], terms[1, 1], terms[1, 2], terms[2, 0, 0], terms[2, 1, 0]
    m0, m1, m2, f0, f1, f2 = mean[0], mean[1], mean[2], factor[0], factor[1], factor[2]
    s0, s1, s2 = shift[0], shift[1], shift[2]
    for i in range(np.uint64(count)):
        at, to = np.uint64(read) + _THREE * i, np.uint64(write) + _THREE * i
        red, green, blue = np.float32(pixels[at]), np.float32(pixels[at + _ONE]), np.float32(pixels[at + _TWO])
        out[to] = round_to_limits((red * r0 + green * g0 + blue * b0 - m0) * f0 + s0, low, high)
        out[to + _ONE] = round_to_limits((red * r1 + green * g1 + blue * b1 - m1) * f1 + s1, low, high)
        out[to + _TWO] = round_to_limits((red * r2 + green * g2 + blue * b2 - m2) * f2 + s2, low, high)


@Compiled
def scale_three(pixels: Array, at: int, terms: Array, first: int, out: Array, to: int, plane: int, count: int) -> None:
    """What `colour` makes of three bytes side by side by SCALE, into planes of floats, many at a time likewise.

    Args:
        pixels: uint8, the memory to read.
        at: where the first pixel is.
        terms: float32 (3, 3), those of SCALE.
        first: the channel of the first byte: 0, or 2 where they are in the opposite order.
        out: float32, the memory to write.
        to: where the first pixel goes.
        plane: the distance between the planes.
        count: how many pixels there are.
    """
    last = 2 - first
    m0, m1, m2, f0, f1, f2 = terms[0, first], terms[0, 1], terms[0, last], terms[1, first], terms[1, 1], terms[1, last]
    s0, s1, s2 = terms[2, first], terms[2, 1], terms[2, last]
    a, b, c = np.uint64(to + first * plane), np.uint64(to + plane), np.uint64(to + last * plane)
    for i in range(np.uint64(count)):
        k = np.uint64(at) + _THREE * i
        out[a + i] = (np.float32(pixels[k]) - m0) * f0 + s0
        out[b + i] = (np.float32(pixels[k + _ONE]) - m1) * f1 + s1
        out[c + i] = (np.float32(pixels[k + _TWO]) - m2) * f2 + s2


@Compiled
def scale_planes(
    pixels: Array,
    begin: int,
    step_y: int,
    mirrored: bool,
    terms: Array,
    out: Array,
    place: Array,
    window: tuple[int, int, int, int],
    width: int,
    memory: Array,
) -> None:
    """`scale_three` for the part of a result that lies in an image; what may lie beside it in its rows is overwritten.

    Args:
        pixels: uint8, the memory to read.
        begin: where the first pixel is, or would be.
        step_y: the distance between rows.
        mirrored: whether the other pixels of a row come before the first.
        terms: float32 (3, 3), those of SCALE.
        out: float32, the memory to write.
        place: of the result.
        window: the first row that lies in the image, the one after the last, and the same of columns.
        width: how many columns the result has.
        memory: uint8, for some pixels; overwritten.
    """
    low_y, high_y, low_x, high_x = window
    if low_y == high_y or low_x == high_x:
        return
    count, joined, most = high_x - low_x, place[1] == width, memory.shape[0] // 3
    begin += low_y * step_y + low_x * (-3 if mirrored else 3)
    if not mirrored:
        together = high_y - low_y if joined and step_y == 3 * width else 1
    else:
        together = max(most // max(width, 1), 1) if joined else 1
    for y in range(low_y, high_y, together):
        rows, to = min(together, high_y - y), place[0] + y * place[1] + low_x
        first = begin + (y - low_y) * step_y
        if not mirrored:  # several rows as one
            scale_three(pixels, first, terms, 0, out, to, place[3], (rows - 1) * width + count)
            continue
        for start in range(0, count, most):
            some = min(most, count - start)
            for row in range(rows):  # byte by byte: the pixels in order, the channels of each in the opposite one
                line = memory[row * width * 3 : (row * width + some) * 3]
                last = np.uint64(first + row * step_y - start * 3 + 2)
                for i in range(np.uint64(line.shape[0])):
                    line[i] = pixels[last - i]
            scale_three(memory, 0, terms, 2, out, to + start, place[3], (rows - 1) * width + some)


@Compiled
def fill_outside(
    table: Array, window: tuple[int, int, int, int], size: tuple[int, int], out: Array, place: Array
) -> None:
    """What lies outside of an image, in planes without gaps: the last entries of a table for three channels.

    Args:
        table: of floats, as `look_up_three` takes it.
        window: the first row that lies in the image, the one after the last, and the same of columns.
        size: how many rows and columns the result has.
        out: float32, the memory to write.
        place: of the result.
    """
    low_y, high_y, low_x, high_x = window
    height, width = size
    for c in range(3):
        value, to = table[c * 257 + 256], place[0] + c * place[3]
        start = to
        for y in range(low_y, high_y):
            for i in range(np.uint64(start), np.uint64(to + y * width + low_x)):
                out[i] = value
            start = to + y * width + high_x
        for i in range(np.uint64(start), np.uint64(to + height * width)):
            out[i] = value
