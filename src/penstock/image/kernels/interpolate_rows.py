"""Compiled loops that interpolate rows of a warp from one, four or sixteen pixels per output pixel."""

from typing import Any

import numpy as np

from penstock.core import Array
from penstock.image.kernels.border_modes import CONSTANT, read_pixel
from penstock.image.kernels.plane_io import load_row
from penstock.native.compiled import Compiled

# Unsigned, because a signed index costs a test for negative values.
_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)


@Compiled
def weights(by: Any) -> tuple[Any, Any, Any, Any]:
    """Return the weights of four neighbors at a fraction `by` after the second: Keys' cubic with a = -3/4."""
    # OpenCV's INTER_CUBIC has the same parameter; the resize filters of `filter_taps` use -1/2, as DALI does.
    one, a = np.float32(1), np.float32(-0.75)
    before, rest = by + one, one - by
    first = ((a * before - np.float32(5) * a) * before + np.float32(8) * a) * before - np.float32(4) * a
    second = ((a + np.float32(2)) * by - (a + np.float32(3))) * by * by + one
    third = ((a + np.float32(2)) * rest - (a + np.float32(3))) * rest * rest + one
    # The last weight is the remainder, so that the sum is exactly 1 and flat areas keep their value.
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
    """Find the pixels that contribute at each coordinate.

    Args:
        at_x: float32 (n,), x coordinates; receives the fraction after the center of the preceding pixel.
        at_y: float32 (n,), y coordinates; receives the fraction.
        around: Taps per axis: 1, 2 or 4.
        surrounded: True for a plane that `surround` filled; then no tap is outside.
        size: Height and width of the image.
        place: Offset and strides of the plane.
        left: int32 (n,), receives the column of the preceding pixel, or of the pixel at the coordinate if `around` is
            1.
        top: int32 (n,), receives its row.
        element: int32 (n,), receives the first element to read, relative to the plane; -1 where a tap is outside, and
            everywhere in a plane too large for int32 offsets.
    """
    # Coordinates far outside, or infinite, must not overflow int32. Up to 2^24, float32 holds all integers exactly.
    limit = np.float32(1 << 24)
    back = np.float32(0 if around == 1 else 0.5)
    before, after, margin = np.int32(max(around // 2 - 1, 0)), around // 2, np.int32(around if surrounded else 0)
    height, width = np.int32(size[0] - after), np.int32(size[1] - after if size[0] * place[1] < 1 << 31 else 0)
    down, right = np.int32(place[1]), np.int32(place[2])
    beyond, low, end_x, end_y = -limit, -limit, limit, limit
    # A coordinate beyond the margin reads margin pixels only, so it is moved to the outermost ones.
    if surrounded:
        beyond, low = np.float32(-after), np.float32(-after - 1)
        end_x, end_y = np.float32(size[1] + before), np.float32(size[0] + before)
    for i in range(at_x.shape[0]):
        x, y = at_x[i] - back, at_y[i] - back
        # NaN, from a projective map that divides zero by zero, counts as outside.
        x, y = min(x, end_x) if x == x else end_x, min(y, end_y) if y == y else end_y
        x, y = low if x < beyond else x, low if y < beyond else y
        column, row = np.floor(x), np.floor(y)
        at_x[i], at_y[i] = x - column, y - row
        j, k = np.int32(column), np.int32(row)
        left[i], top[i] = j, k
        # Bitwise operators, because `and` and `or` would be branches and prevent vectorization.
        inside = surrounded | ((j >= before) & (k >= before) & (j < width) & (k < height))
        j, k = j - before + margin, k - before + margin
        element[i] = np.int32(k * down + j * right) if inside else np.int32(-1)


@Compiled
def all_weights(by_x: Array, by_y: Array, shares: Array) -> None:
    """Compute the cubic weights of many coordinates, horizontal and then vertical: float32 (8, n)."""
    for first, by in ((0, by_x), (4, by_y)):
        a, b, c, d = shares[first], shares[first + 1], shares[first + 2], shares[first + 3]
        for i in range(by.shape[0]):
            a[i], b[i], c[i], d[i] = weights(by[i])


@Compiled
def nearest_row(pixels: Array, first: Array, place: Array, channels: int, rounding: np.float32, line: Array) -> None:
    """Copy one pixel of the image for each pixel of a row.

    Three interleaved channels, the usual case, are read and written as four values here and in `linear_row` and
    `cubic_row`: they fit a vector register. The next pixel overwrites the fourth.

    Args:
        pixels: The memory.
        first: int32 (n,), first element of each, from `locate_taps`; -1 is skipped.
        place: Offset and strides of the plane.
        channels: Number of channels.
        rounding: Value to add before truncation.
        line: float32 (n * channels + 1,), receives interleaved channels.
    """
    start, channel = place[0], np.uint64(place[3])
    # The fourth value of the last pixel may be past the end of the memory; such pixels take the slower branch.
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
    """Interpolate linearly between four pixels of the image.

    Args:
        pixels: The memory.
        first: int32 (n,), first element of each; -1 is skipped.
        by_x: float32 (n,), horizontal fraction after that pixel.
        by_y: float32 (n,), vertical fraction.
        place: Offset and strides of the plane.
        channels: Number of channels.
        rounding: Value to add before truncation.
        line: float32 (n * channels + 1,), receives interleaved channels.
    """
    start, down, right, channel = place[0], np.uint64(place[1]), np.uint64(place[2]), np.uint64(place[3])
    last = pixels.shape[0] - place[1] - place[2] - 4 if channels == 3 and channel == _ONE else -1
    for x in range(first.shape[0]):
        if first[x] < 0:
            continue
        i, o, across, along = np.uint64(start + first[x]), np.uint64(x * channels), by_x[x], by_y[x]
        j, k, m = i + right, i + down, i + down + right
        # Unrolled over four values rather than written as a loop: LLVM combines the scalar operations into vector
        # instructions.
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
    """Interpolate between sixteen pixels with the weights of `all_weights`; `first` refers to the top left tap."""
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
                total, a = rounding, at + n * channel
                for share in shares:
                    b, c = a + right, a + right + right
                    value = wa * np.float32(pixels[a]) + wb * np.float32(pixels[b])
                    total += share * (value + wc * np.float32(pixels[c]) + wd * np.float32(pixels[c + right]))
                    a += down
                line[o + n] = total


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
    """Interpolate those pixels of a row that have a tap outside of the image.

    Args:
        pixels: The memory.
        left: int32 (n,), from `locate_taps`.
        top: int32 (n,), from `locate_taps`.
        element: int32 (n,), from `locate_taps`.
        by_x: float32 (n,), from `locate_taps`.
        by_y: float32 (n,), from `locate_taps`.
        place: Offset and strides of the plane.
        size: Height, width and channels.
        around: Taps per axis.
        border: Border mode.
        fill: Value outside of the image if the border is constant; one for all channels or one per channel.
        rounding: Value to add before truncation.
        taps: float32 (16,), for the taps of one pixel; overwritten.
        line: float32 (n * channels,), receives interleaved channels.
    """
    height, width, channels, per_channel = size[0], size[1], size[2], 1 if fill.shape[0] > 1 else 0
    before, after = max(around // 2 - 1, 0), around // 2
    for x in range(element.shape[0]):
        if element[x] >= 0:
            continue
        column, row, across, down = int(left[x]), int(top[x]), by_x[x], by_y[x]
        none = row + after < 0 or row - before >= height or column + after < 0 or column - before >= width
        for c in range(channels):
            start, value, to = place[0] + c * place[3], fill[c * per_channel], x * channels + c
            # All taps are fill values, as in the corners of a rotated image: nothing to interpolate.
            if none and border == CONSTANT:
                line[to] = value + rounding
                continue
            for k in range(around):
                for m in range(around):
                    value_at_tap = read_pixel(
                        pixels, start, place, size, row + k - before, column + m - before, border, value
                    )
                    taps[4 * k + m] = value_at_tap
            if around == 1:
                line[to] = taps[0] + rounding
            elif around == 2:
                upper, lower = taps[0] + across * (taps[1] - taps[0]), taps[4] + across * (taps[5] - taps[4])
                line[to] = upper + down * (lower - upper) + rounding
            else:
                a, b, d, e = weights(across)
                total, k = rounding, 0
                for share in weights(down):
                    total += share * (a * taps[k] + b * taps[k + 1] + d * taps[k + 2] + e * taps[k + 3])
                    k += 4
                line[to] = total


@Compiled
def surround(pixels: Array, place: Array, size: Array, margin: int, fill: Array, known: bool, plane: Array) -> None:
    """Load a plane as floats with a margin of fill values on all sides.

    Args:
        pixels: The memory.
        place: Offset of the first element, then the strides of rows, columns and channels.
        size: Height, width, channels.
        margin: Width of the margin, in pixels.
        fill: Value of the margin: one for all channels or one per channel.
        known: True if the margin is already filled, for a previous plane of the same size.
        plane: float32, receives the pixels.
    """
    width, channels = size[1], size[2]
    across, beside = (width + 2 * margin) * channels, margin * channels
    high, per_channel = size[0] + 2 * margin, 1 if fill.shape[0] > 1 else 0
    for y in range(high):
        row, inside = plane[y * across : (y + 1) * across], margin <= y < margin + size[0]
        if not known:
            for x in range(0, across, channels):
                for c in range(channels):
                    row[x + c] = fill[c * per_channel]
        if inside:
            load_row(pixels, place[0] + (y - margin) * place[1], place, channels, row[beside : across - beside])


@Compiled
def linear_three(
    plane: Array, first: Array, by_x: Array, by_y: Array, down: int, rounding: np.float32, line: Array
) -> None:
    """Interpolate linearly between pixels of three channels in a plane that `surround` filled.

    Unlike `linear_row`, it needs no tests for skipped pixels or for the end of memory.

    Args:
        plane: float32, filled by `surround`, with one more element.
        first: int32 (n,), first element of each.
        by_x: float32 (n,), horizontal fraction after that pixel.
        by_y: float32 (n,), vertical fraction.
        down: Distance between rows, in elements.
        rounding: Value to add before truncation.
        line: float32 (n * 3 + 1,), receives interleaved channels.
    """
    for x in range(np.uint64(first.shape[0])):
        i, o, across, along = np.uint64(first[x]), _THREE * x, by_x[x], by_y[x]
        j, k, m = i + _THREE, i + np.uint64(down), i + np.uint64(down) + _THREE
        a0, a1, a2, a3 = plane[i], plane[i + _ONE], plane[i + _TWO], plane[i + _THREE]
        b0, b1, b2, b3 = plane[j], plane[j + _ONE], plane[j + _TWO], plane[j + _THREE]
        d0, d1, d2, d3 = plane[k], plane[k + _ONE], plane[k + _TWO], plane[k + _THREE]
        e0, e1, e2, e3 = plane[m], plane[m + _ONE], plane[m + _TWO], plane[m + _THREE]
        u0, v0 = a0 + across * (b0 - a0), d0 + across * (e0 - d0)
        u1, v1 = a1 + across * (b1 - a1), d1 + across * (e1 - d1)
        u2, v2 = a2 + across * (b2 - a2), d2 + across * (e2 - d2)
        u3, v3 = a3 + across * (b3 - a3), d3 + across * (e3 - d3)
        line[o], line[o + _ONE] = u0 + along * (v0 - u0) + rounding, u1 + along * (v1 - u1) + rounding
        line[o + _TWO], line[o + _THREE] = u2 + along * (v2 - u2) + rounding, u3 + along * (v3 - u3) + rounding
