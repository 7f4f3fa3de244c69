"""What images lose as JPEGs, without the files: the rounding that an encoder and a decoder do, and no entropy coding.

The numbers are those of libjpeg's accurate integer transform ("islow"), colours at half of the resolution, and smooth
upsampling. All of it is arithmetic with integers, so pixels are the same, bit by bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array
from penstock.native.compiled import Compiled, precompile

_LUMA = (
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
)  # fmt: skip
_COLOURS = (
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99, *[99] * 32,
)  # fmt: skip
"""In how large steps coefficients are told apart at quality 50 (ITU-T T.81, annex K): rows are vertical frequencies."""

_QUALITY = np.arange(1, 101)[:, None, None]
_SCALE = np.where(_QUALITY < 50, 5000 // _QUALITY, 200 - 2 * _QUALITY)
_STEPS = np.clip((np.array([_LUMA, _COLOURS]) * _SCALE + 50) // 100, 1, 255).astype(np.int32).reshape(-1, 2, 8, 8)
"""The same for each quality from 1 on."""

_BITS = 13
"""The factors of the cosine transform are multiplied by 2 to this power."""

_ONE, _THREE, _HALF = np.uint64(1), np.uint64(3), np.float32(0.5)


def jpeg_round_trip(images: Array, quality: NDArray[np.int32], out: Array) -> None:
    """Images as they would be after they were kept as JPEGs.

    Args:
        images: uint8 (images, height, width, 3), C-contiguous, RGB, not empty.
        quality: int32 (images,), C-contiguous, from 1 to 100.
        out: as `images`; written.
    """
    count, height, width, _ = images.shape
    tall, wide = 8 * -(-height // 16), 8 * -(-width // 16)
    luma, colours = np.empty((2 * tall, 2 * wide), np.uint8), np.empty((tall, 2 * wide), np.uint8)
    lines, strips = np.empty((4, 2 * wide + 2), np.int32), np.empty((3, 8, 2 * wide), np.int32)
    shares, flat = np.empty((8, 2 * wide), np.float32), (count, height, 3 * width)
    lose(images.reshape(flat), quality, _STEPS, luma, colours, lines, strips, shares, out.reshape(flat))


@precompile("u1[3] i4[1] i4[4] u1[2] u1[2] i4[2] i4[3] f4[2] u1[3]")
@Compiled
def lose(
    images: Array,
    quality: Array,
    steps: Array,
    luma: Array,
    colours: Array,
    lines: Array,
    strips: Array,
    shares: Array,
    out: Array,
) -> None:
    """Images through the rounding of JPEGs, one after the other.

    Args:
        images: uint8 (images, height, 3 * width).
        quality: int32 (images,), from 1 on.
        steps: int32 (qualities, 2, 8, 8): of luma and colours.
        luma: uint8, of the images' size up to multiples of 16; overwritten.
        colours: uint8, half as high; overwritten. Blue is on the left, red on the right.
        lines: int32 (4, two more than `luma` is wide); overwritten.
        strips: int32 (3, 8, as wide as `luma`); overwritten.
        shares: float32 (8, as wide as `luma`); overwritten.
        out: as `images`.
    """
    for n in range(images.shape[0]):
        table = steps[quality[n] - 1]
        split_planes(images[n], luma, colours, lines)
        tile(table[0], strips[2], shares)
        quantize(luma, strips[2], shares, strips[0], strips[1])
        tile(table[1], strips[2], shares)
        quantize(colours, strips[2], shares, strips[0], strips[1])
        join(luma, colours, lines, out[n])


@Compiled
def split_planes(image: Array, luma: Array, colours: Array, lines: Array) -> None:
    """Luma, and two colours at half of the resolution. Beyond the edge of the image, its outermost pixels go on."""
    height, width = image.shape[0], image.shape[1] // 3
    rows, half = (height + 1) // 2, colours.shape[1] // 2
    for y in range(2 * rows):
        row, bright = image[min(y, height - 1)], luma[y]
        blue, red = lines[y % 2 * 2], lines[y % 2 * 2 + 1]
        for x in range(np.uint64(width)):
            at = _THREE * x
            r, g, b = np.int32(row[at]), np.int32(row[at + _ONE]), np.int32(row[at + _ONE + _ONE])
            bright[x] = np.int32(19595 * r + 38470 * g + 7471 * b + 32768) >> 16
            blue[x] = np.int32(-11059 * r - 21709 * g + 32768 * b + 8421375) >> 16
            red[x] = np.int32(32768 * r - 27439 * g - 5329 * b + 8421375) >> 16
        bright[width:], blue[width:], red[width:] = bright[width - 1], blue[width - 1], red[width - 1]
        if y % 2:
            for c in range(2):
                above, below, made = lines[c], lines[2 + c], colours[y // 2, c * half : c * half + half]
                for x in range(half):  # halves are rounded down and up by turns
                    total = above[2 * x] + above[2 * x + 1] + below[2 * x] + below[2 * x + 1]
                    made[x] = np.int32(total + 1 + x % 2) >> 2
    go_on(luma, height)
    go_on(colours, rows)


@Compiled
def go_on(plane: Array, rows: int) -> None:
    """The last one of so many rows again, to the end of a plane."""
    for y in range(rows, plane.shape[0]):
        for x in range(plane.shape[1]):
            plane[y, x] = plane[rows - 1, x]


@Compiled
def tile(table: Array, steps: Array, shares: Array) -> None:
    """A table again and again along a strip: the steps, and what part of one a coefficient is, which counts eights."""
    for start in range(0, steps.shape[1], 8):
        for v in range(8):
            for u in range(8):
                steps[v, start + u] = table[v, u]
                shares[v, start + u] = np.float32(0.125) / np.float32(table[v, u])


@Compiled
def quantize(plane: Array, steps: Array, shares: Array, first: Array, second: Array) -> None:
    """Round the coefficients of a plane's blocks of 8 x 8 pixels to multiples of their steps.

    Args:
        plane: uint8; changed.
        steps: int32 (8, at least as wide): of the coefficients of each block.
        shares: float32, likewise: the parts of steps that coefficients are.
        first: int32, likewise; overwritten.
        second: int32, likewise; overwritten.
    """
    height, width = plane.shape
    for top in range(0, height, 8):
        for start in range(0, width, 8):
            for y in range(8):
                for x in range(8):
                    first[x, start + y] = np.int32(plane[top + y, start + x]) - 128
        forward(first, _BITS - 2, second, width)  # with two more bits than whole numbers, until the second time
        turn(second, first, width)
        forward(first, _BITS + 2, second, width)
        for v in range(8):
            row, step, share, made = second[v], steps[v], shares[v], first[v]
            for x in range(width):
                value = np.float32(row[x])
                # coefficients are whole: half of one more decides ties, and is more than what floats leave out
                count = np.floor((abs(value) + _HALF) * share[x] + _HALF)
                made[x] = np.int32(np.copysign(count, value)) * step[x]
        inverse(first, _BITS - 2, second, width)
        turn(second, first, width)
        inverse(first, _BITS + 5, second, width)
        for x in range(8):
            row = second[x]
            for y in range(width):
                row[y] = min(max(np.int32(row[y] + 128), np.int32(0)), np.int32(255))
        for start in range(0, width, 8):
            for y in range(8):
                for x in range(8):
                    plane[top + y, start + x] = second[x, start + y]


@Compiled
def turn(given: Array, made: Array, width: int) -> None:
    """Rows of each block become its columns."""
    for start in range(0, width, 8):
        for y in range(8):
            for x in range(8):
                made[x, start + y] = given[y, start + x]


@Compiled
def forward(given: Array, bits: int, made: Array, width: int) -> None:
    """The cosine transform of columns of 8 numbers, divided by 2 to the power of `bits` and rounded.

    Factors are cosines times 8192, summed up as those of libjpeg are, and so not always the nearest whole number.
    """
    half = np.int32(1 << (bits - 1))
    for x in range(width):
        a, b, c, d = given[0, x], given[1, x], given[2, x], given[3, x]
        e, f, g, h = given[7, x], given[6, x], given[5, x], given[4, x]
        s, t, u, v = np.int32(a + e), np.int32(b + f), np.int32(c + g), np.int32(d + h)
        a, b, c, d = np.int32(a - e), np.int32(b - f), np.int32(c - g), np.int32(d - h)
        e, f, g, h = np.int32(s + v), np.int32(t + u), np.int32(s - v), np.int32(t - u)
        made[0, x] = np.int32(8192 * (e + f) + half) >> bits
        made[1, x] = np.int32(11363 * a + 9633 * b + 6437 * c + 2260 * d + half) >> bits
        made[2, x] = np.int32(10703 * g + 4433 * h + half) >> bits
        made[3, x] = np.int32(9633 * a - 2259 * b - 11362 * c - 6436 * d + half) >> bits
        made[4, x] = np.int32(8192 * (e - f) + half) >> bits
        made[5, x] = np.int32(6437 * a - 11362 * b + 2261 * c + 9633 * d + half) >> bits
        made[6, x] = np.int32(4433 * g - 10704 * h + half) >> bits
        made[7, x] = np.int32(2260 * a - 6436 * b + 9633 * c - 11363 * d + half) >> bits


@Compiled
def inverse(given: Array, bits: int, made: Array, width: int) -> None:
    """The inverse of `forward`: the same factors the other way round."""
    half = np.int32(1 << (bits - 1))
    for x in range(width):
        a, b, c, d = given[0, x], given[2, x], given[4, x], given[6, x]
        e, f, g, h = given[1, x], given[3, x], given[5, x], given[7, x]
        s, t = np.int32(8192 * (a + c) + half), np.int32(8192 * (a - c) + half)
        u, v = np.int32(10703 * b + 4433 * d), np.int32(4433 * b - 10704 * d)
        a, b, c, d = np.int32(s + u), np.int32(t + v), np.int32(t - v), np.int32(s - u)
        s = np.int32(11363 * e + 9633 * f + 6437 * g + 2260 * h)
        t = np.int32(9633 * e - 2259 * f - 11362 * g - 6436 * h)
        u = np.int32(6437 * e - 11362 * f + 2261 * g + 9633 * h)
        v = np.int32(2260 * e - 6436 * f + 9633 * g - 11363 * h)
        made[0, x], made[7, x] = np.int32(a + s) >> bits, np.int32(a - s) >> bits
        made[1, x], made[6, x] = np.int32(b + t) >> bits, np.int32(b - t) >> bits
        made[2, x], made[5, x] = np.int32(c + u) >> bits, np.int32(c - u) >> bits
        made[3, x], made[4, x] = np.int32(d + v) >> bits, np.int32(d - v) >> bits


@Compiled
def join(luma: Array, colours: Array, lines: Array, image: Array) -> None:
    """RGB, of colours that are drawn out smoothly: three parts of the nearest one, one part of the next."""
    height, width = image.shape[0], image.shape[1] // 3
    rows, columns, half = (height + 1) // 2, (width + 1) // 2, colours.shape[1] // 2
    for y in range(height):
        nearest = y // 2
        beside = min(max(nearest - 1 + y % 2 * 2, 0), rows - 1)
        for c in range(2):
            near, far = colours[nearest, c * half :], colours[beside, c * half :]
            mixed, made = lines[2 + c], lines[c]
            if columns > 2:
                for x in range(columns):
                    mixed[x + 1] = np.int32(np.int32(3) * near[x] + far[x])
                mixed[0], mixed[columns + 1] = mixed[1], mixed[columns]
                for x in range(columns):
                    made[2 * x] = np.int32(3 * mixed[x + 1] + mixed[x] + 8) >> 4
                    made[2 * x + 1] = np.int32(3 * mixed[x + 1] + mixed[x + 2] + 7) >> 4
            else:  # too few of them
                for x in range(width):
                    made[x] = near[x // 2]
        row, bright, blue, red = image[y], luma[y], lines[0], lines[1]
        for x in range(np.uint64(width)):
            light, b, r = np.int32(bright[x]), np.int32(blue[x] - 128), np.int32(red[x] - 128)
            at = _THREE * x
            row[at] = byte(light + (np.int32(91881 * r + 32768) >> 16))
            row[at + _ONE] = byte(light + (np.int32(32768 - 22554 * b - 46802 * r) >> 16))
            row[at + _ONE + _ONE] = byte(light + (np.int32(116130 * b + 32768) >> 16))


@Compiled
def byte(value: Any) -> Any:
    """The nearest byte."""
    return np.uint8(min(max(np.int32(value), np.int32(0)), np.int32(255)))
