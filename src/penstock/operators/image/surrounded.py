"""Compiled loops over small images that are copied with what lies outside, so that no place of a warp is outside."""

from __future__ import annotations

import numpy as np

from penstock.data.source import Array
from penstock.native.compiled import Compiled
from penstock.operators.image.planes import load_row

_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)


@Compiled
def surround(pixels: Array, place: Array, size: Array, margin: int, fill: Array, known: bool, plane: Array) -> None:
    """`penstock.operators.image.planes.load` with a margin on all sides.

    Args:
        pixels: the memory.
        place: the first element, and the distances to the next row, column and channel.
        size: height, width, channels.
        margin: how many pixels it has.
        fill: their value: one for all channels, or one for each.
        known: whether they have it already.
        plane: float32, where to.
    """
    width, channels = size[1], size[2]
    across, beside = (width + 2 * margin) * channels, margin * channels
    high, each = size[0] + 2 * margin, 1 if fill.shape[0] > 1 else 0
    for y in range(high):
        row, inside = plane[y * across : (y + 1) * across], margin <= y < margin + size[0]
        if not known:
            for x in range(0, across, channels):
                for c in range(channels):
                    row[x + c] = fill[c * each]
        if inside:
            load_row(pixels, place[0] + (y - margin) * place[1], place, channels, row[beside : across - beside])


@Compiled
def linear_three(
    plane: Array, first: Array, by_x: Array, by_y: Array, down: int, rounding: np.float32, line: Array
) -> None:
    """`penstock.operators.image.sampled.linear` where all pixels have three channels, and four values to read.

    Args:
        plane: float32, what `surround` made, with another element.
        first: int32 (n,): the first element of each.
        by_x: float32 (n,): how far the place lies after this, across.
        by_y: down.
        down: the distance to the next row.
        rounding: what is added.
        line: float32 (n * 3 + 1,), the channels of a pixel side by side.
    """
    for x in range(np.uint64(first.shape[0])):
        i, o, across, along = np.uint64(first[x]), _THREE * x, by_x[x], by_y[x]
        j, k, m = i + _THREE, i + np.uint64(down), i + np.uint64(down) + _THREE
        a0, a1, a2, a3 = plane[i], plane[i + _ONE], plane[i + _TWO], plane[i + _THREE]
        b0, b1, b2, b3 = plane[j], plane[j + _ONE], plane[j + _TWO], plane[j + _THREE]
        d0, d1, d2, d3 = plane[k], plane[k + _ONE], plane[k + _TWO], plane[k + _THREE]
        e0, e1, e2, e3 = plane[m], plane[m + _ONE], plane[m + _TWO], plane[m + _THREE]
        u0, u1, u2, u3 = (
            a0 + across * (b0 - a0),
            a1 + across * (b1 - a1),
            a2 + across * (b2 - a2),
            a3 + across * (b3 - a3),
        )
        v0, v1, v2, v3 = (
            d0 + across * (e0 - d0),
            d1 + across * (e1 - d1),
            d2 + across * (e2 - d2),
            d3 + across * (e3 - d3),
        )
        line[o], line[o + _ONE] = u0 + along * (v0 - u0) + rounding, u1 + along * (v1 - u1) + rounding
        line[o + _TWO], line[o + _THREE] = u2 + along * (v2 - u2) + rounding, u3 + along * (v3 - u3) + rounding
