"""The compiled loop for colours behind a Bayer filter as averages of the nearest pixels; `debayer` calls it."""

from __future__ import annotations

import numpy as np

from penstock.core.columns import Array
from penstock.native.compiled import Compiled, precompile

_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)

TOGETHER = 4096
"""So many pixels are computed together, or two rows."""

_GREEN, _BLUE = 1, 2


@precompile(*(f"{a}[2] i8 i4[2] b1 {a}[2] u1[1] {a}[2]" for a in ("u1", "u2")))
@Compiled
def by_averages(images: Array, width: int, blue: Array, edges: bool, lines: Array, kinds: Array, out: Array) -> None:
    """Images of one channel in colour. Outermost pixels are those beside them.

    Args:
        images: uint8 or uint16 (images, height * width), both extents even and at least 4.
        width: of the images.
        blue: int32 (positions, 2): the row and the column of blue; one position for as many images that follow each
            other as there are images for each.
        edges: whether green is taken from the direction in which it changes less.
        lines: of the images' dtype (3, n), for an even number of rows, at least two; overwritten.
        kinds: uint8 (n,); overwritten.
        out: of the images' dtype (images, height * width * 3).
    """
    height, each, rows = images.shape[1] // width, images.shape[0] // blue.shape[0], lines.shape[1] // width
    red, green, other = lines[0], lines[1], lines[2]
    for n in range(images.shape[0]):
        own = blue[n // each]
        if n == 0 or own[0] != blue[(n - 1) // each, 0] or own[1] != blue[(n - 1) // each, 1]:
            for y in range(min(rows, height - 2)):
                is_blue = (1 + y + own[0]) % 2
                for x in range(width):
                    kinds[y * width + x] = (_GREEN if is_blue != (x + own[1]) % 2 else 0) + _BLUE * is_blue
        image, made = images[n], out[n]
        for first in range(1, height - 1, rows):
            count, start = min(rows, height - 1 - first), first * width + 1
            size = count * width - 2  # without the first pixel and the last, which are outermost
            average(image, start, width, edges, kinds[1 : 1 + size], red[:size], green[:size], other[:size])
            interleave(red[:size], green[:size], other[:size], made[3 * start : 3 * (start + size)])
        for y in range(1, height - 1):
            left, right = 3 * y * width, 3 * (y + 1) * width - 3
            for c in range(3):
                made[left + c], made[right + c] = made[left + 3 + c], made[right - 3 + c]
        last = 3 * (height - 1) * width
        for i in range(3 * width):
            made[i], made[last + i] = made[3 * width + i], made[last - 3 * width + i]


@Compiled
def average(
    image: Array, start: int, width: int, edges: bool, kinds: Array, reds: Array, greens: Array, blues: Array
) -> None:
    """The colours of pixels that follow each other.

    Args:
        image: the image.
        start: the first of these pixels.
        width: of the image.
        edges: as for `by_averages`.
        kinds: what pixels are: green, and in a row that has blue ones.
        reds: receives their red.
        greens: their green.
        blues: their blue.
    """
    here, above, below = start - 1, start - 1 - width, start - 1 + width
    left_above, top, right_above = image[above:], image[above + 1 :], image[above + 2 :]
    left, centre, right = image[here:], image[here + 1 :], image[here + 2 :]
    left_below, bottom, right_below = image[below:], image[below + 1 :], image[below + 2 :]
    for x in range(reds.shape[0]):
        sides = np.uint32(left[x]) + np.uint32(right[x])
        ends = np.uint32(top[x]) + np.uint32(bottom[x])
        corners = np.uint32(left_above[x]) + np.uint32(right_above[x])
        corners = (corners + np.uint32(left_below[x]) + np.uint32(right_below[x]) + _TWO) >> _TWO
        cross = (sides + ends + _TWO) >> _TWO
        sides, ends = (sides + _ONE) >> _ONE, (ends + _ONE) >> _ONE
        if edges:
            across, down = abs(np.int32(left[x]) - np.int32(right[x])), abs(np.int32(top[x]) - np.int32(bottom[x]))
            cross = ends if across > down else sides
        green, pixel = kinds[x] & _GREEN != 0, centre[x]
        own, other = sides if green else pixel, ends if green else corners
        greens[x] = pixel if green else cross
        reds[x], blues[x] = (other, own) if kinds[x] & _BLUE else (own, other)


@Compiled
def interleave(reds: Array, greens: Array, blues: Array, pixels: Array) -> None:
    """Three colours, side by side."""
    for x in range(np.uint64(reds.shape[0])):
        to = _THREE * x
        pixels[to], pixels[to + _ONE], pixels[to + _TWO] = reds[x], greens[x], blues[x]
