"""Compiled loops that map bytes through tables of 256 entries, or through arithmetic that replaces a table."""

import numpy as np

from penstock.core import Array
from penstock.native.compiled import Compiled, precompile


@precompile(*(f"u1[1] u{size}[1] u{size}[1]" for size in (1, 4)))
@Compiled
def look_up_bytes(numbers: Array, entries: Array, out: Array) -> None:
    """Replace bytes by table entries.

    Args:
        numbers: uint8.
        entries: (256,), unsigned integers that hold the bits of any dtype.
        out: Same length as `numbers`; receives the entries.
    """
    for i in range(numbers.shape[0]):
        out[i] = entries[numbers[i]]


_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)
# The largest float32 below 1/2. Adding 1/2 to the largest float32 below 1/2 gives 1, which would round up.
_HALF = np.float32(0.49999997)


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
    """Map one channel of a row of pixels through a table.

    Indices are uint64 here and in `map_three_channels`: for a signed index, numba adds a test for negative values.

    Args:
        pixels: uint8, the memory to read.
        at: Offset of the first pixel.
        by: Distance between pixels; a negative distance wraps around modulo 2^64.
        table: Result for each byte, then the result for pixels outside.
        entry: Offset of the channel's entries in the table.
        low: First pixel inside the image.
        high: End of the pixels inside the image (exclusive).
        width: Number of pixels.
        out: The memory to write.
        to: Offset of the first pixel.
        step: Distance between pixels.
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
    """Map three channels of a row of pixels, the usual case, which is faster than one channel after the other.

    The distance between channels is `channel` in the memory that is read and `plane` in the memory that is written.
    """
    # Each channel has 257 entries; the last one is for pixels outside of the image.
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
    """Round to the nearest byte within limits; NaN becomes `low`."""
    # `min` and `max` return their first argument if a comparison with NaN fails, so the order of the arguments matters.
    # The conversion goes through int32 because there is no vector instruction from floats to bytes.
    return np.uint8(np.int32(min(max(low, value), high) + _HALF))


@Compiled
def scale_bytes(pixels: Array, at: np.uint64, terms: Array, out: Array, to: np.uint64, count: int) -> None:
    """Apply SCALE and HALVES_AWAY to bytes, as `apply_color_ops` does.

    The loop is vectorized, and therefore faster than a table.
    """
    mean, factor, shift, low, high = terms[0, 0], terms[0, 1], terms[0, 2], terms[1, 0], terms[1, 1]
    for i in range(np.uint64(count)):
        out[to + i] = round_to_limits((np.float32(pixels[at + i]) - mean) * factor + shift, low, high)


@Compiled
def scale_to_floats(pixels: Array, at: np.uint64, terms: Array, out: Array, to: np.uint64, count: int) -> None:
    """Apply SCALE to bytes, as `apply_color_ops` does, and write floats. Vectorized, as `scale_bytes`."""
    mean, factor, shift = terms[0], terms[1], terms[2]
    for i in range(np.uint64(count)):
        out[to + i] = (np.float32(pixels[at + i]) - mean) * factor + shift


@Compiled
def fill_margins(value: float, low: int, high: int, width: int, out: Array, to: np.uint64) -> None:
    """Fill a row of `width` values, except from `low` to `high` (exclusive)."""
    for x in range(np.uint64(0), np.uint64(low)):
        out[to + x] = value
    for x in range(np.uint64(high), np.uint64(width)):
        out[to + x] = value


@Compiled
def mix_bytes(pixels: Array, read: int, terms: Array, out: Array, write: int, count: int) -> None:
    """Apply MIX, SCALE and HALVES_AWAY to pixels of three bytes, as `apply_color_ops` does."""
    # The terms are copied to scalars: numba cannot prove that writing `out` leaves `terms` unchanged, and would reload
    # them.
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
    """Apply SCALE to three interleaved bytes and write planes of floats, as `apply_color_ops` does.

    Args:
        pixels: uint8, the memory to read.
        at: Offset of the first pixel.
        terms: float32 (3, 3), terms of SCALE.
        first: Channel of the first byte: 0, or 2 if the bytes are in reverse order.
        out: float32, the memory to write.
        to: Offset of the first pixel.
        plane: Distance between planes.
        count: Number of pixels.
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
    """Apply `scale_three` to the part of a result that is inside an image.

    Pixels beside it in the same rows may be overwritten.

    Args:
        pixels: uint8, the memory to read.
        begin: Offset of the first pixel of the result, which may be outside of the image.
        step_y: Distance between rows.
        mirrored: True if columns are read backwards.
        terms: float32 (3, 3), terms of SCALE.
        out: float32, the memory to write.
        place: Offset and strides of the result.
        window: First row inside the image and end of these rows, then the same for columns.
        width: Number of columns of the result.
        memory: uint8, for some pixels; overwritten.
    """
    low_y, high_y, low_x, high_x = window
    if low_y == high_y or low_x == high_x:
        return
    count, joined, most = high_x - low_x, place[1] == width, memory.shape[0] // 3
    begin += low_y * step_y + low_x * (-3 if mirrored else 3)
    # Without gaps, several rows are one long row. A window that is narrower than the result also writes the pixels
    # between its rows; `fill_outside` corrects them afterwards.
    if not mirrored:
        together = high_y - low_y if joined and step_y == 3 * width else 1
    else:
        together = max(most // max(width, 1), 1) if joined else 1
    for y in range(low_y, high_y, together):
        rows, to = min(together, high_y - y), place[0] + y * place[1] + low_x
        first = begin + (y - low_y) * step_y
        if not mirrored:
            scale_three(pixels, first, terms, 0, out, to, place[3], (rows - 1) * width + count)
            continue
        for start in range(0, count, most):
            some = min(most, count - start)
            # All bytes are reversed in one simple loop, without regard to pixels. This reverses the channels of each
            # pixel, too, which `scale_three` undoes.
            for row in range(rows):
                line = memory[row * width * 3 : (row * width + some) * 3]
                last = np.uint64(first + row * step_y - start * 3 + 2)
                for i in range(np.uint64(line.shape[0])):
                    line[i] = pixels[last - i]
            scale_three(memory, 0, terms, 2, out, to + start, place[3], (rows - 1) * width + some)


@Compiled
def fill_outside(
    table: Array, window: tuple[int, int, int, int], size: tuple[int, int], out: Array, place: Array
) -> None:
    """Fill the pixels outside of an image in planes without gaps, with the last entries of a table for three channels.

    Args:
        table: Floats, as for `map_three_channels`.
        window: First row inside the image and end of these rows, then the same for columns.
        size: Number of rows and columns of the result.
        out: float32, the memory to write.
        place: Offset and strides of the result.
    """
    low_y, high_y, low_x, high_x = window
    height, width = size
    for c in range(3):
        value, to = table[c * 257 + 256], place[0] + c * place[3]
        # One run covers the right margin of a row and the left margin of the next.
        start = to
        for y in range(low_y, high_y):
            for i in range(np.uint64(start), np.uint64(to + y * width + low_x)):
                out[i] = value
            start = to + y * width + high_x
        for i in range(np.uint64(start), np.uint64(to + height * width)):
            out[i] = value
