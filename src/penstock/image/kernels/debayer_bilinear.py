"""Compiled loop for bilinear debayering; `operators.color.debayer` calls it."""

import numpy as np

from penstock.core import Array
from penstock.image.kernels.row_arithmetic import same_numbers
from penstock.native.compiled import Compiled, precompile

# Unsigned, because a signed index costs a test for negative values.
_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)

# Pixels per block (at least two rows): the intermediate colors of a block stay in the cache.
BLOCK_PIXELS = 4096

# Bits of a pixel's kind: it is green; its row contains blue pixels.
_GREEN, _BLUE = 1, 2


@precompile(*(f"{a}[2] i8 i4[2] b1 {a}[2] u1[1] {a}[2]" for a in ("u1", "u2")))
@Compiled
def by_averages(images: Array, width: int, blue: Array, edges: bool, lines: Array, kinds: Array, out: Array) -> None:
    """Debayer images by averaging the nearest pixels of each color. Edge pixels copy their inner neighbors.

    Args:
        images: uint8 or uint16 (images, height * width), both extents even and at least 4.
        width: Width of the images.
        blue: int32 (positions, 2), row and column of blue; each position applies to the same number of consecutive
            images.
        edges: True to interpolate green along the direction in which it changes less.
        lines: Same dtype as the images, (3, n) for an even number of rows, at least two; overwritten.
        kinds: uint8 (n,); overwritten.
        out: Same dtype as the images, (images, height * width * 3).
    """
    height, rows = images.shape[1] // width, lines.shape[1] // width
    images_per_position = images.shape[0] // blue.shape[0]
    red, green, other = lines[0], lines[1], lines[2]
    for n in range(images.shape[0]):
        blue_position = blue[n // images_per_position]
        if n == 0 or not same_numbers(blue_position, blue[(n - 1) // images_per_position]):
            # The pattern repeats every two rows, so the kinds are the same for each block of an even number of rows.
            for y in range(min(rows, height - 2)):
                is_blue = (1 + y + blue_position[0]) % 2
                for x in range(width):
                    kinds[y * width + x] = (_GREEN if is_blue != (x + blue_position[1]) % 2 else 0) + _BLUE * is_blue
        image, result = images[n], out[n]
        for first in range(1, height - 1, rows):
            count, start = min(rows, height - 1 - first), first * width + 1
            size = count * width - 2  # without the first and last pixel, which are at the edge
            average(image, start, width, edges, kinds[1 : 1 + size], red[:size], green[:size], other[:size])
            interleave(red[:size], green[:size], other[:size], result[3 * start : 3 * (start + size)])
        for y in range(1, height - 1):
            left, right = 3 * y * width, 3 * (y + 1) * width - 3
            for c in range(3):
                result[left + c], result[right + c] = result[left + 3 + c], result[right - 3 + c]
        last = 3 * (height - 1) * width
        for i in range(3 * width):
            result[i], result[last + i] = result[3 * width + i], result[last - 3 * width + i]


@Compiled
def average(
    image: Array, start: int, width: int, edges: bool, kinds: Array, reds: Array, greens: Array, blues: Array
) -> None:
    """Compute the colors of consecutive pixels.

    Args:
        image: The image.
        start: Index of the first of these pixels.
        width: Width of the image.
        edges: As for `by_averages`.
        kinds: Kinds of the pixels: bits _GREEN and _BLUE.
        reds: Receives red.
        greens: Receives green.
        blues: Receives blue.
    """
    here, above, below = start - 1, start - 1 - width, start - 1 + width
    # Shifted views instead of offsets: all eight neighbors have the same index, and the loop vectorizes.
    left_above, top, right_above = image[above:], image[above + 1 :], image[above + 2 :]
    left, center, right = image[here:], image[here + 1 :], image[here + 2 :]
    left_below, bottom, right_below = image[below:], image[below + 1 :], image[below + 2 :]
    # Edge pixels between rows are computed with wrong neighbors, without a test for them; the caller overwrites them.
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
        green, pixel = kinds[x] & _GREEN != 0, center[x]
        own, other = sides if green else pixel, ends if green else corners
        greens[x] = pixel if green else cross
        reds[x], blues[x] = (other, own) if kinds[x] & _BLUE else (own, other)


@Compiled
def interleave(reds: Array, greens: Array, blues: Array, pixels: Array) -> None:
    """Interleave three planes of colors."""
    for x in range(np.uint64(reds.shape[0])):
        to = _THREE * x
        pixels[to], pixels[to + _ONE], pixels[to + _TWO] = reds[x], greens[x], blues[x]
