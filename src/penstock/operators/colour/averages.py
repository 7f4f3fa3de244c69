"""The compiled loop for colours behind a Bayer filter as averages of the nearest pixels; `debayer` calls it."""

from __future__ import annotations

import numpy as np

from penstock.data.source import Array
from penstock.native.compiled import Compiled, ahead

_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)


@ahead(*(f"{a}[3] i4[2] b1 {a}[2] b1[2] {a}[2]" for a in ("u1", "u2")))
@Compiled
def by_averages(images: Array, blue: Array, edges: bool, lines: Array, green: Array, out: Array) -> None:
    """Images of one channel in colour. Outermost pixels are those beside them.

    Args:
        images: uint8 or uint16 (images, height, width), both extents even and at least 4.
        blue: int32 (positions, 2): the row and the column of blue; one position for as many images that follow each
            other as there are images for each.
        edges: whether green is taken from the direction in which it changes less.
        lines: of the images' dtype (3, width - 2); overwritten.
        green: bool (2, width - 2); overwritten.
        out: of the images' dtype (images, height * width * 3).
    """
    height, width, each = images.shape[1], images.shape[2], images.shape[0] // blue.shape[0]
    for n in range(images.shape[0]):
        blue_row, blue_column = blue[n // each, 0], blue[n // each, 1]
        for x in range(width - 2):
            green[0, x] = (x + 1 + blue_column) % 2 == 1
            green[1, x] = not green[0, x]
        for y in range(1, height - 1):
            is_blue = (y + blue_row) % 2 == 1
            above, here, below = images[n, y - 1], images[n, y], images[n, y + 1]
            average(above, here, below, edges, green[1 if is_blue else 0], lines[0], lines[1], lines[2])
            line = out[n, 3 * y * width : 3 * (y + 1) * width]
            interleave(lines[1 if is_blue else 0], lines[2], lines[0 if is_blue else 1], line)
        last = 3 * (height - 1) * width
        for i in range(3 * width):
            out[n, i], out[n, last + i] = out[n, 3 * width + i], out[n, last - 3 * width + i]


@Compiled
def average(
    above: Array, here: Array, below: Array, edges: bool, green: Array, own: Array, other: Array, middle: Array
) -> None:
    """The inner pixels of a row.

    Args:
        above: the row above.
        here: the row.
        below: the row below.
        edges: as for `by_averages`.
        green: which of the inner pixels are green.
        own: receives the colour that the row has beside green.
        other: the one that it has not.
        middle: green.
    """
    left_above, top, right_above = above[:-2], above[1:-1], above[2:]
    left, centre, right = here[:-2], here[1:-1], here[2:]
    left_below, bottom, right_below = below[:-2], below[1:-1], below[2:]
    for x in range(own.shape[0]):
        sides = np.uint32(left[x]) + np.uint32(right[x])
        ends = np.uint32(top[x]) + np.uint32(bottom[x])
        corners = np.uint32(left_above[x]) + np.uint32(right_above[x])
        corners = corners + np.uint32(left_below[x]) + np.uint32(right_below[x])
        cross = (sides + ends + _TWO) >> _TWO
        sides, ends = (sides + _ONE) >> _ONE, (ends + _ONE) >> _ONE
        if edges:
            across, down = abs(np.int32(left[x]) - np.int32(right[x])), abs(np.int32(top[x]) - np.int32(bottom[x]))
            cross = ends if across > down else sides
        own[x] = sides if green[x] else centre[x]
        other[x] = ends if green[x] else (corners + _TWO) >> _TWO
        middle[x] = centre[x] if green[x] else cross


@Compiled
def interleave(red: Array, green: Array, blue: Array, line: Array) -> None:
    """The inner pixels of a row side by side, and the outermost."""
    for x in range(np.uint64(red.shape[0])):
        to = _THREE * (x + _ONE)
        line[to], line[to + _ONE], line[to + _TWO] = red[x], green[x], blue[x]
    last = line.shape[0] - 3
    for c in range(3):
        line[c], line[last + c] = line[3 + c], line[last - 3 + c]
