"""Warps by cubic interpolation: sixteen pixels make one. Compiled loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from penstock.data.source import Array
from penstock.native.compiled import Compiled
from penstock.operators.image.borders import CONSTANT, folded
from penstock.operators.image.places import places


@Compiled
def weights(by: Any) -> tuple[Any, Any, Any, Any]:
    """The weights of four pixels in a row at a place that lies `by` after the second: Keys' cubic with a = -3/4."""
    one, a = np.float32(1), np.float32(-0.75)
    before, rest = by + one, one - by
    first = ((a * before - np.float32(5) * a) * before + np.float32(8) * a) * before - np.float32(4) * a
    second = ((a + np.float32(2)) * by - (a + np.float32(3))) * by * by + one
    third = ((a + np.float32(2)) * rest - (a + np.float32(3))) * rest * rest + one
    return first, second, third, one - first - second - third


@Compiled
def _near(at: Any, size: int, border: int, there: Array, shares: Array) -> None:
    """Which four pixels of an axis make one, and their weights.

    Args:
        at: the place, from the centre of the first pixel on.
        size: how many pixels there are.
        border: what lies outside.
        there: int64 (4,), receives the pixels; -1 for a value that lies outside.
        shares: float32 (4,), receives the weights.
    """
    limit = np.float32(1 << 24)
    at = min(max(at, -limit), limit) if at == at else limit
    second = math.floor(at)
    shares[0], shares[1], shares[2], shares[3] = weights(at - np.float32(second))
    for k in range(4):
        pixel = second + k - 1
        if pixel < 0 or pixel >= size:
            pixel = -1 if border == CONSTANT or size == 0 else folded(pixel, size, border)
        there[k] = pixel


@Compiled
def warp_cubic(
    pixels: Array,
    place_in: Array,
    size_in: Array,
    code: int,
    numbers: Array,
    table: Array,
    fills: Array,
    there: Array,
    shares: Array,
    border: int,
    rounding: np.float32,
    found: Array,
    out: Array,
    place_out: Array,
    size_out: Array,
) -> None:
    """Planes of images, warped.

    The arguments are those of `penstock.operators.image.warp.warp`, and `there`, int64 (2, 4), and `shares`, float32
    (2, 4), for the rows and columns of a pixel.
    """
    half = np.float32(0.5)
    for n in range(place_in.shape[0]):
        own, fill, place, size = numbers[n % numbers.shape[0]], fills[n % fills.shape[0]], place_in[n], size_in[n]
        for row in range(size_out[n, 0]):
            places(code, own, table, row, size, size_out[n], found[0], found[1])
            to = place_out[n, 0] + row * place_out[n, 1]
            for column in range(size_out[n, 1]):
                _near(found[1, column] - half, size[0], border, there[0], shares[0])
                _near(found[0, column] - half, size[1], border, there[1], shares[1])
                for channel in range(size[2]):
                    begin, made = place[0] + channel * place[3], rounding
                    for k in range(4):
                        line = np.float32(0)
                        for j in range(4):
                            value = fill[channel % fill.shape[0]]
                            if there[0, k] >= 0 and there[1, j] >= 0:
                                value = np.float32(pixels[begin + there[0, k] * place[1] + there[1, j] * place[2]])
                            line += shares[1, j] * value
                        made += shares[0, k] * line
                    if rounding != 0:  # bytes
                        made = min(max(made, np.float32(0)), np.float32(255))
                    out[to + channel * place_out[n, 3]] = made
                to += place_out[n, 2]
