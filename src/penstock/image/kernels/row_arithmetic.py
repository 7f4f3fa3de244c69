"""Compiled loops over one row of pixels: resampled or picked, and changed in colour. `kernels` calls them."""

from __future__ import annotations

import numpy as np

from penstock.core.columns import Array
from penstock.image.kernels.filter_taps import BEGIN, END, LENGTH, MIRRORED, START
from penstock.native.compiled import Compiled

SCALE, HALVES_UP, HALVES_AWAY, FILL, MIX = range(5)
"""What can be done to the value of a pixel; see `colour`."""

_U1, _U2, _U3 = np.uint64(1), np.uint64(2), np.uint64(3)


@Compiled
def blend_rows(
    pixels: Array, start: int, step: int, place: Array, count: int, weights: Array, channels: int, out: Array
) -> None:
    """One row of a result, not yet resampled in width: the weighed sum of `count` rows of pixels.

    Args:
        pixels: the memory.
        start: the element in which the first row begins.
        step: the distance from one row to the next.
        place: of the image, for the distances of its columns and channels.
        count: how many rows have a weight.
        weights: float32, as many or more.
        channels: how many there are.
        out: float32, the channels of a pixel side by side.
    """
    size = out.shape[0]
    if place[3] == 1 and place[2] == channels:  # in memory as in `out`: summed in one pass, which is faster
        row = pixels[start : start + size]
        a = weights[0]
        if count == 1:
            for i in range(size):
                out[i] = np.float32(row[i]) * a
            return
        row_b, b = pixels[start + step : start + step + size], weights[1]
        if count == 2:
            for i in range(size):
                out[i] = np.float32(row[i]) * a + np.float32(row_b[i]) * b
            return
        row_c, c = pixels[start + 2 * step : start + 2 * step + size], weights[2]
        for i in range(size):
            out[i] = np.float32(row[i]) * a + np.float32(row_b[i]) * b + np.float32(row_c[i]) * c
        for k in range(3, count):
            row = pixels[start + k * step : start + k * step + size]
            a = weights[k]
            for i in range(size):
                out[i] += np.float32(row[i]) * a
        return
    for k in range(count):
        a = weights[k]
        for x in range(size // channels):
            at = start + k * step + x * place[2]
            for c in range(channels):
                value = np.float32(pixels[at + c * place[3]]) * a
                out[x * channels + c] = value if k == 0 else out[x * channels + c] + value


@Compiled
def blend_columns(
    row: Array, channels: int, left: int, first: Array, counts: Array, most: int, weights: Array, out: Array
) -> None:
    """A row resampled in width.

    The first taps of three channels, the usual case, are written out: a loop over them costs more than they do. There a
    pixel is computed as four values, which fit a register. The fourth is overwritten by the pixel that follows.

    Args:
        row: float32, the channels of a pixel side by side; four pixels longer than what has a weight, and zero there.
        channels: how many there are.
        left: the pixel with which `row` begins.
        first: per pixel of the result the first pixel that has a weight.
        counts: how many pixels have one.
        most: the greatest of them.
        weights: float32 (pixels of the result, taps), zero from `counts` on.
        out: float32 (pixels of the result * channels + 1,), the channels of a pixel side by side.
    """
    size = counts.shape[0]
    if channels == 3 and most <= 2:
        for x in range(size):
            i, o, a, b = np.uint64(3 * (first[x] - left)), np.uint64(3 * x), weights[x, 0], weights[x, 1]
            red = row[i] * a + row[i + _U3] * b
            green = row[i + _U1] * a + row[i + _U3 + _U1] * b
            blue = row[i + _U2] * a + row[i + _U3 + _U2] * b
            spare = row[i + _U3] * a + row[i + _U3 + _U3] * b
            out[o], out[o + _U1], out[o + _U2], out[o + _U3] = red, green, blue, spare
    elif channels == 3 and most == 3:
        for x in range(size):
            i, o = np.uint64(3 * (first[x] - left)), np.uint64(3 * x)
            a, b, c = weights[x, 0], weights[x, 1], weights[x, 2]
            j, k = i + _U3, i + _U3 + _U3
            red = row[i] * a + row[j] * b + row[k] * c
            green = row[i + _U1] * a + row[j + _U1] * b + row[k + _U1] * c
            blue = row[i + _U2] * a + row[j + _U2] * b + row[k + _U2] * c
            spare = row[i + _U3] * a + row[j + _U3] * b + row[k + _U3] * c
            out[o], out[o + _U1], out[o + _U2], out[o + _U3] = red, green, blue, spare
    elif channels == 3 and weights.shape[1] >= 4:
        for x in range(size):
            i, o = np.uint64(3 * (first[x] - left)), np.uint64(3 * x)
            a, b, c, d = weights[x, 0], weights[x, 1], weights[x, 2], weights[x, 3]
            j, k, m = i + _U3, i + _U3 + _U3, i + _U3 + _U3 + _U3
            red = row[i] * a + row[j] * b + row[k] * c + row[m] * d
            green = row[i + _U1] * a + row[j + _U1] * b + row[k + _U1] * c + row[m + _U1] * d
            blue = row[i + _U2] * a + row[j + _U2] * b + row[k + _U2] * c + row[m + _U2] * d
            spare = row[i + _U3] * a + row[j + _U3] * b + row[k + _U3] * c + row[m + _U3] * d
            for t in range(4, counts[x]):
                m += _U3
                red += row[m] * weights[x, t]
                green += row[m + _U1] * weights[x, t]
                blue += row[m + _U2] * weights[x, t]
                spare += row[m + _U3] * weights[x, t]
            out[o], out[o + _U1], out[o + _U2], out[o + _U3] = red, green, blue, spare
    else:
        for x in range(size):
            i = channels * (first[x] - left)
            for c in range(channels):
                total = np.float32(0)
                for k in range(counts[x]):
                    total += row[i + k * channels + c] * weights[x, k]
                out[channels * x + c] = total


@Compiled
def deinterleave(mixed: Array, channels: int, line: Array) -> None:
    """The channels of a row of pixels, which lie side by side, one after the other."""
    size = line.shape[0] // channels
    if channels == 3:
        red, green, blue = line[:size], line[size : 2 * size], line[2 * size :]
        for x in range(size):
            i = np.uint64(3 * x)
            red[x], green[x], blue[x] = mixed[i], mixed[i + _U1], mixed[i + _U2]
        return
    for c in range(channels):
        for x in range(size):
            line[c * size + x] = mixed[x * channels + c]


@Compiled
def scale_and_deinterleave(mixed: Array, terms: Array, out: Array, start: int, plane: int, size: int) -> None:
    """Three channels side by side, rounded halves up, scaled and parted: `part` and `colour` in one visit.

    Args:
        mixed: float32 (3 * pixels,).
        terms: as `colour` takes them, of HALVES_UP and SCALE.
        out: float32.
        start: where the first channel goes.
        plane: the distance to the next one.
        size: how many pixels there are.
    """
    low, high, half = terms[0, 0, 0], terms[0, 1, 0], np.float32(0.5)
    a, b, c = terms[1, 0, 0], terms[1, 0, 1], terms[1, 0, 2]
    by_a, by_b, by_c = terms[1, 1, 0], terms[1, 1, 1], terms[1, 1, 2]
    plus_a, plus_b, plus_c = terms[1, 2, 0], terms[1, 2, 1], terms[1, 2, 2]
    red, green, blue = out[start : start + size], out[start + plane :], out[start + 2 * plane :]
    for x in range(size):
        i = np.uint64(3 * x)
        red[x] = (np.float32(np.int32(min(max(mixed[i] + half, low), high))) - a) * by_a + plus_a
        green[x] = (np.float32(np.int32(min(max(mixed[i + _U1] + half, low), high))) - b) * by_b + plus_b
        blue[x] = (np.float32(np.int32(min(max(mixed[i + _U2] + half, low), high))) - c) * by_c + plus_c


@Compiled
def pick_row(
    pixels: Array, start: int, step: int, channel: int, channels: int, low: int, high: int, line: Array
) -> None:
    """A row of pixels as they are, as floats, its channels apart; zero outside of [low, high)."""
    size = line.shape[0] // channels
    for c in range(channels):
        at, by = np.uint64(start + c * channel), np.uint64(step)
        values = line[c * size : (c + 1) * size]
        for x in range(low):
            values[x] = 0
        for x in range(np.uint64(low), np.uint64(high)):
            values[x] = np.float32(pixels[at + x * by])
        for x in range(high, size):
            values[x] = 0


@Compiled
def mix_channels(line: Array, factors: Array) -> None:
    """Three channels made of three: ``factors[j, c]`` is the factor of channel j for channel c."""
    size = line.shape[0] // 3
    reds, greens, blues = line[:size], line[size : 2 * size], line[2 * size : 3 * size]
    by_red, by_green, by_blue = factors[0], factors[1], factors[2]
    for x in range(size):
        red, green, blue = reds[x], greens[x], blues[x]
        reds[x] = red * by_red[0] + green * by_green[0] + blue * by_blue[0]
        greens[x] = red * by_red[1] + green * by_green[1] + blue * by_blue[1]
        blues[x] = red * by_red[2] + green * by_green[2] + blue * by_blue[2]


@Compiled
def colour(line: Array, channels: int, codes: Array, terms: Array, low: int, high: int) -> None:
    """What becomes of the values of a row of pixels: a few operations, one after the other.

    Args:
        line: float32 (channels * pixels,), changed in place.
        channels: how many there are, one after the other; or 1, where what becomes of them is the same.
        codes: int64, one per operation: SCALE, HALVES_UP, HALVES_AWAY, FILL or MIX.
        terms: float32 (operations, 3, channels). SCALE: ``(value - terms[0]) * terms[1] + terms[2]``. HALVES_UP,
            HALVES_AWAY: the nearest whole number from terms[0] to terms[1], halves up, or away from zero. FILL: the
            value outside of the image. MIX: as `mix` has it.
        low: the first pixel inside the image.
        high: the first one after it.
    """
    size = line.shape[0] // channels
    for k in range(codes.shape[0]):
        code = codes[k]
        if code == MIX:
            mix_channels(line, terms[k])
            continue
        for c in range(channels):
            a, b, shift = terms[k, 0, c], terms[k, 1, c], terms[k, 2, c]
            values = line[c * size : (c + 1) * size]
            if code == SCALE:
                for x in range(size):
                    values[x] = (values[x] - a) * b + shift
            elif code == HALVES_UP:
                for x in range(size):
                    values[x] = np.float32(np.int32(min(max(values[x] + np.float32(0.5), a), b)))
            elif code == HALVES_AWAY:
                for x in range(size):
                    value = values[x]
                    magnitude = abs(value)
                    whole = np.floor(magnitude)  # `math.floor` makes an integer, one at a time
                    whole = whole + np.float32(1) if magnitude - whole >= np.float32(0.5) else whole
                    value = (-whole if value < 0 else whole) if value == value else np.float32(0)
                    values[x] = min(max(value, a), b)
            else:
                for x in range(low):
                    values[x] = a
                for x in range(high, size):
                    values[x] = a


@Compiled
def same_for_all(codes: Array, terms: Array) -> bool:
    """Whether operations do the same to each channel, and know no other."""
    same = True
    for k in range(terms.shape[0]):
        same = same and codes[k] != MIX
        for i in range(terms.shape[1]):
            for c in range(1, terms.shape[2]):
                same = same and terms[k, i, c] == terms[k, i, 0]
    return same


@Compiled
def single_scale_op(codes: Array) -> int:
    """Which operation is SCALE, if all others only say what lies outside of an image; -1 if it is not so."""
    found = -1
    for k in range(codes.shape[0]):
        if codes[k] != FILL:
            found = k if codes[k] == SCALE and found == -1 else -2
    return max(found, -1)


@Compiled
def same_numbers(a: Array, b: Array) -> bool:
    """Whether two axes have the same numbers."""
    same = True
    for k in range(a.shape[0]):
        same = same and a[k] == b[k]
    return same


@Compiled
def columns_inside(axis: Array) -> tuple[int, int]:
    """Which of the wanted pixels of an axis that is not resampled lie in the image: from, to."""
    length = int(axis[LENGTH])
    low = min(max(int(-axis[START]), 0), length)
    high = min(max(int(axis[END] - axis[BEGIN] - axis[START]), low), length)
    if axis[MIRRORED]:
        return length - high, length - low
    return low, high
