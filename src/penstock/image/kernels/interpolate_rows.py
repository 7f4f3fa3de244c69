"""Compiled loops over rows of a warp: pixels that are made of one, four or sixteen of an image."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.columns import Array
from penstock.image.kernels.border_modes import CONSTANT, read_pixel
from penstock.image.kernels.plane_io import load_row
from penstock.native.compiled import Compiled

_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)


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
def locate_taps(
    at_x: Array,
    at_y: Array,
    around: int,
    surrounded: bool,
    size: Array,
    place: Array,
    left: Array,
    top: Array,
    element: Array,
) -> None:
    """Which pixels make those at some places.

    Args:
        at_x: float32 (n,): x of each place; receives by how much it lies after the centre of the pixel before.
        at_y: y, likewise.
        around: how many pixels of each axis make one: 1, 2 or 4.
        surrounded: whether the plane is one that `surround` made, so that none lies outside.
        size: height and width of the image.
        place: of the plane.
        left: int32 (n,), receives the column of the pixel before, or of the one at the place if this is all.
        top: its row.
        element: int32 (n,), receives the first element that is read, from that of the plane on; -1 where a pixel lies
            outside, and in a plane whose elements int32 does not count.
    """
    limit = np.float32(1 << 24)  # what lies far outside must not overflow
    back = np.float32(0 if around == 1 else 0.5)
    before, after, margin = np.int32(max(around // 2 - 1, 0)), around // 2, np.int32(around if surrounded else 0)
    height, width = np.int32(size[0] - after), np.int32(size[1] - after if size[0] * place[1] < 1 << 31 else 0)
    down, right = np.int32(place[1]), np.int32(place[2])
    beyond, low, end_x, end_y = -limit, -limit, limit, limit
    if surrounded:  # what is made of pixels outside alone is made of the outermost ones
        beyond, low = np.float32(-after), np.float32(-after - 1)
        end_x, end_y = np.float32(size[1] + before), np.float32(size[0] + before)
    for i in range(at_x.shape[0]):
        x, y = at_x[i] - back, at_y[i] - back
        x, y = min(x, end_x) if x == x else end_x, min(y, end_y) if y == y else end_y
        x, y = low if x < beyond else x, low if y < beyond else y
        column, row = np.floor(x), np.floor(y)
        at_x[i], at_y[i] = x - column, y - row
        j, k = np.int32(column), np.int32(row)
        left[i], top[i] = j, k
        inside = surrounded | ((j >= before) & (k >= before) & (j < width) & (k < height))
        j, k = j - before + margin, k - before + margin
        element[i] = np.int32(k * down + j * right) if inside else np.int32(-1)


@Compiled
def all_weights(by_x: Array, by_y: Array, shares: Array) -> None:
    """The `weights` of some places, across and down: float32 (8, n)."""
    for first, by in ((0, by_x), (4, by_y)):
        a, b, c, d = shares[first], shares[first + 1], shares[first + 2], shares[first + 3]
        for i in range(by.shape[0]):
            a[i], b[i], c[i], d[i] = weights(by[i])


@Compiled
def nearest_row(pixels: Array, first: Array, place: Array, channels: int, rounding: np.float32, line: Array) -> None:
    """A row of pixels of which each is one of the image, as it is.

    Three channels side by side, the usual case, are read and written as four values, here and in `linear` and `cubic`,
    which fit a register. The fourth is overwritten by the pixel that follows.

    Args:
        pixels: the memory.
        first: int32 (n,): the first element of each, as `locate` has it; those of -1 are left out.
        place: of the plane.
        channels: how many there are.
        rounding: what is added.
        line: float32 (n * channels + 1,), the channels of a pixel side by side.
    """
    start, channel = place[0], np.uint64(place[3])
    last = pixels.shape[0] - 4 if channels == 3 and channel == _ONE else -1
    for x in range(first.shape[0]):
        at, o = np.uint64(start + first[x]), np.uint64(x * channels)
        if first[x] < 0:
            continue
        if start + first[x] <= last:
            a, b, c, d = pixels[at], pixels[at + _ONE], pixels[at + _TWO], pixels[at + _THREE]
            line[o], line[o + _ONE] = np.float32(a) + rounding, np.float32(b) + rounding
            line[o + _TWO], line[o + _THREE] = np.float32(c) + rounding, np.float32(d) + rounding
        else:
            for n in range(np.uint64(channels)):
                line[o + n] = np.float32(pixels[at + n * channel]) + rounding


@Compiled
def linear_row(
    pixels: Array,
    first: Array,
    by_x: Array,
    by_y: Array,
    place: Array,
    channels: int,
    rounding: np.float32,
    line: Array,
) -> None:
    """`nearest`, with four pixels weighed by their distances.

    Args:
        pixels: the memory.
        first: int32 (n,): the first element of each.
        by_x: float32 (n,): how far the place lies after this, across.
        by_y: down.
        place: of the plane.
        channels: how many there are.
        rounding: what is added.
        line: float32 (n * channels + 1,), the channels of a pixel side by side.
    """
    start, down, right, channel = place[0], np.uint64(place[1]), np.uint64(place[2]), np.uint64(place[3])
    last = pixels.shape[0] - place[1] - place[2] - 4 if channels == 3 and channel == _ONE else -1
    for x in range(first.shape[0]):
        if first[x] < 0:
            continue
        i, o, across, along = np.uint64(start + first[x]), np.uint64(x * channels), by_x[x], by_y[x]
        j, k, m = i + right, i + down, i + down + right
        if start + first[x] <= last:
            a0, b0, d0, e0 = np.float32(pixels[i]), np.float32(pixels[j]), np.float32(pixels[k]), np.float32(pixels[m])
            i, j, k, m = i + _ONE, j + _ONE, k + _ONE, m + _ONE
            a1, b1, d1, e1 = np.float32(pixels[i]), np.float32(pixels[j]), np.float32(pixels[k]), np.float32(pixels[m])
            i, j, k, m = i + _ONE, j + _ONE, k + _ONE, m + _ONE
            a2, b2, d2, e2 = np.float32(pixels[i]), np.float32(pixels[j]), np.float32(pixels[k]), np.float32(pixels[m])
            i, j, k, m = i + _ONE, j + _ONE, k + _ONE, m + _ONE
            a3, b3, d3, e3 = np.float32(pixels[i]), np.float32(pixels[j]), np.float32(pixels[k]), np.float32(pixels[m])
            u0, v0 = a0 + across * (b0 - a0), d0 + across * (e0 - d0)
            u1, v1 = a1 + across * (b1 - a1), d1 + across * (e1 - d1)
            u2, v2 = a2 + across * (b2 - a2), d2 + across * (e2 - d2)
            u3, v3 = a3 + across * (b3 - a3), d3 + across * (e3 - d3)
            line[o], line[o + _ONE] = u0 + along * (v0 - u0) + rounding, u1 + along * (v1 - u1) + rounding
            line[o + _TWO], line[o + _THREE] = u2 + along * (v2 - u2) + rounding, u3 + along * (v3 - u3) + rounding
        else:
            for n in range(np.uint64(channels)):
                c = n * channel
                a, b = np.float32(pixels[i + c]), np.float32(pixels[j + c])
                d, e = np.float32(pixels[k + c]), np.float32(pixels[m + c])
                upper, lower = a + across * (b - a), d + across * (e - d)
                line[o + n] = upper + along * (lower - upper) + rounding


@Compiled
def cubic_row(
    pixels: Array,
    first: Array,
    all_shares: Array,
    place: Array,
    channels: int,
    rounding: np.float32,
    line: Array,
) -> None:
    """`linear` with sixteen pixels, weighed as `all_weights` says; the first element is of the one above left."""
    start, down, right, channel = place[0], np.uint64(place[1]), np.uint64(place[2]), np.uint64(place[3])
    last = pixels.shape[0] - 3 * (place[1] + place[2]) - 4 if channels == 3 and channel == _ONE else -1
    for x in range(first.shape[0]):
        if first[x] < 0:
            continue
        at, o = np.uint64(start + first[x]), np.uint64(x * channels)
        wa, wb, wc, wd = all_shares[0, x], all_shares[1, x], all_shares[2, x], all_shares[3, x]
        shares = all_shares[4, x], all_shares[5, x], all_shares[6, x], all_shares[7, x]
        if start + first[x] <= last:
            red = green = blue = spare = rounding
            for share in shares:
                a, b, c, d = at, at + right, at + right + right, at + right + right + right
                r = wa * np.float32(pixels[a]) + wb * np.float32(pixels[b])
                r = r + wc * np.float32(pixels[c]) + wd * np.float32(pixels[d])
                a, b, c, d = a + _ONE, b + _ONE, c + _ONE, d + _ONE
                g = wa * np.float32(pixels[a]) + wb * np.float32(pixels[b])
                g = g + wc * np.float32(pixels[c]) + wd * np.float32(pixels[d])
                a, b, c, d = a + _ONE, b + _ONE, c + _ONE, d + _ONE
                p = wa * np.float32(pixels[a]) + wb * np.float32(pixels[b])
                p = p + wc * np.float32(pixels[c]) + wd * np.float32(pixels[d])
                a, b, c, d = a + _ONE, b + _ONE, c + _ONE, d + _ONE
                s = wa * np.float32(pixels[a]) + wb * np.float32(pixels[b])
                s = s + wc * np.float32(pixels[c]) + wd * np.float32(pixels[d])
                red, green, blue, spare = red + share * r, green + share * g, blue + share * p, spare + share * s
                at += down
            line[o], line[o + _ONE], line[o + _TWO], line[o + _THREE] = red, green, blue, spare
        else:
            for n in range(np.uint64(channels)):
                made, a = rounding, at + n * channel
                for share in shares:
                    b, c = a + right, a + right + right
                    value = wa * np.float32(pixels[a]) + wb * np.float32(pixels[b])
                    made += share * (value + wc * np.float32(pixels[c]) + wd * np.float32(pixels[c + right]))
                    a += down
                line[o + n] = made


@Compiled
def sample_outside(
    pixels: Array,
    left: Array,
    top: Array,
    element: Array,
    by_x: Array,
    by_y: Array,
    place: Array,
    size: Array,
    around: int,
    border: int,
    fill: Array,
    rounding: np.float32,
    taps: Array,
    line: Array,
) -> None:
    """Those pixels of a row that are made of some outside of the image.

    Args:
        pixels: the memory.
        left: int32 (n,), as `locate` has it.
        top: likewise.
        element: likewise.
        by_x: float32 (n,), likewise.
        by_y: likewise.
        place: of the plane.
        size: height, width and channels.
        around: how many pixels of each axis make one.
        border: what lies outside.
        fill: the value, if it is one; one for all channels, or one for each.
        rounding: what is added.
        taps: float32 (16,), for the pixels that make one; overwritten.
        line: float32 (n * channels,), the channels of a pixel side by side.
    """
    height, width, channels, each = size[0], size[1], size[2], 1 if fill.shape[0] > 1 else 0
    before, after = max(around // 2 - 1, 0), around // 2
    for x in range(element.shape[0]):
        if element[x] >= 0:
            continue
        column, row, across, down = int(left[x]), int(top[x]), by_x[x], by_y[x]
        none = row + after < 0 or row - before >= height or column + after < 0 or column - before >= width
        for c in range(channels):
            start, value, to = place[0] + c * place[3], fill[c * each], x * channels + c
            if none and border == CONSTANT:
                line[to] = value + rounding
                continue
            for k in range(around):
                for m in range(around):
                    found = read_pixel(pixels, start, place, size, row + k - before, column + m - before, border, value)
                    taps[4 * k + m] = found
            if around == 1:
                line[to] = taps[0] + rounding
            elif around == 2:
                upper, lower = taps[0] + across * (taps[1] - taps[0]), taps[4] + across * (taps[5] - taps[4])
                line[to] = upper + down * (lower - upper) + rounding
            else:
                a, b, d, e = weights(across)
                made, k = rounding, 0
                for share in weights(down):
                    made += share * (a * taps[k] + b * taps[k + 1] + d * taps[k + 2] + e * taps[k + 3])
                    k += 4
                line[to] = made


@Compiled
def surround(pixels: Array, place: Array, size: Array, margin: int, fill: Array, known: bool, plane: Array) -> None:
    """`penstock.image.kernels.plane_io.load` with a margin on all sides.

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
    """`penstock.image.kernels.interpolate_rows.linear` where all pixels have three channels, and four values to read.

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
