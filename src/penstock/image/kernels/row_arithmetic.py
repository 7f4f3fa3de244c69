"""Compiled loops over one row of pixels: resample, copy and apply color operations. `resample_rows` calls them."""

import numpy as np

from penstock.core import Array
from penstock.image.kernels.clip import clip
from penstock.image.kernels.filter_taps import BEGIN, END, LENGTH, MIRRORED, START
from penstock.native.compiled import Compiled

# Codes of the operations that `apply_color_ops` applies to the values of pixels.
SCALE, HALVES_UP, HALVES_AWAY, FILL, MIX = range(5)

# Constant of the compiled variants (see `resample_rows.blending`): False compiles code for three channels only.
ANY_CHANNELS = True

# Unsigned constants keep index arithmetic unsigned. For a signed index, numba adds a test for negative values (which
# count from the end) to each access.
_U1, _U2, _U3 = np.uint64(1), np.uint64(2), np.uint64(3)


@Compiled
def blend_rows(
    pixels: Array, start: int, step: int, place: Array, count: int, weights: Array, channels: int, out: Array
) -> None:
    """Compute one row of the result before horizontal resampling: the weighted sum of `count` rows of pixels.

    Args:
        pixels: The memory.
        start: Offset of the first element of the first row.
        step: Distance between rows, in elements.
        place: Offset and strides of the image; the strides of columns and channels are used.
        count: Number of rows that have a weight.
        weights: float32, at least `count` entries.
        channels: Number of channels.
        out: float32, receives the row with interleaved channels.
    """
    size = out.shape[0]
    # Up to three taps (a triangle filter that enlarges has two) are summed in one pass over `out`: rereading and
    # rewriting `out` for each tap would cost more than the arithmetic. Contiguous slices let LLVM vectorize.
    if place[3] == 1 and place[2] == channels:
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
    row: Array, channels: int, step: int, first: Array, counts: Array, most: int, weights: Array, out: Array
) -> None:
    """Resample a row horizontally.

    The first taps of three channels, the usual case, are unrolled: a loop over them costs more than they do. Each pixel
    is computed as four values, which fit a vector register. The next pixel overwrites the fourth.

    Args:
        row: float32, interleaved channels; four pixels longer than the part that has a weight, and zero there.
        channels: Number of channels.
        step: The same number, again, for two and three taps. If LLVM knows that it is 3, it loads a value that both of
            them read only once, and moves it between vector registers, which takes longer than to load it twice.
        first: Per output pixel, the index of the first element of `row` that has a weight.
        counts: Per output pixel, the number of taps.
        most: Largest of `counts`.
        weights: float32 (output pixels, taps), zero from `counts` on.
        out: float32 (output pixels * channels + 1,), receives interleaved channels. The extra element takes the fourth
            value of the last pixel.
    """
    size, by = counts.shape[0], np.uint64(step)
    # Pixels with fewer taps than the branch has multiply by a weight of zero. This reads past the last source pixel of
    # the row, which is why `row` must be longer and zero there.
    if channels == 3 and most <= 2:
        for x in range(size):
            i, o, a, b = np.uint64(first[x]), np.uint64(3 * x), weights[x, 0], weights[x, 1]
            j = i + by
            red = row[i] * a + row[j] * b
            green = row[i + _U1] * a + row[j + _U1] * b
            blue = row[i + _U2] * a + row[j + _U2] * b
            spare = row[i + _U3] * a + row[j + _U3] * b
            out[o], out[o + _U1], out[o + _U2], out[o + _U3] = red, green, blue, spare
    elif channels == 3 and most == 3:
        for x in range(size):
            i, o = np.uint64(first[x]), np.uint64(3 * x)
            a, b, c = weights[x, 0], weights[x, 1], weights[x, 2]
            j, k = i + by, i + by + by
            red = row[i] * a + row[j] * b + row[k] * c
            green = row[i + _U1] * a + row[j + _U1] * b + row[k + _U1] * c
            blue = row[i + _U2] * a + row[j + _U2] * b + row[k + _U2] * c
            spare = row[i + _U3] * a + row[j + _U3] * b + row[k + _U3] * c
            out[o], out[o + _U1], out[o + _U2], out[o + _U3] = red, green, blue, spare
    elif channels == 3 and weights.shape[1] >= 4:
        for x in range(size):
            i, o = np.uint64(first[x]), np.uint64(3 * x)
            a, b, c, d = weights[x, 0], weights[x, 1], weights[x, 2], weights[x, 3]
            j, k, m = i + _U3, i + _U3 + _U3, i + _U3 + _U3 + _U3
            red = row[i] * a + row[j] * b + row[k] * c + row[m] * d
            green = row[i + _U1] * a + row[j + _U1] * b + row[k + _U1] * c + row[m + _U1] * d
            blue = row[i + _U2] * a + row[j + _U2] * b + row[k + _U2] * c + row[m + _U2] * d
            spare = row[i + _U3] * a + row[j + _U3] * b + row[k + _U3] * c + row[m + _U3] * d
            # Wide filters, such as antialiased reductions, continue with a loop.
            for t in range(4, counts[x]):
                m += _U3
                red += row[m] * weights[x, t]
                green += row[m + _U1] * weights[x, t]
                blue += row[m + _U2] * weights[x, t]
                spare += row[m + _U3] * weights[x, t]
            out[o], out[o + _U1], out[o + _U2], out[o + _U3] = red, green, blue, spare
    elif ANY_CHANNELS:
        for x in range(size):
            for c in range(channels):
                total = np.float32(0)
                for k in range(counts[x]):
                    total += row[first[x] + k * channels + c] * weights[x, k]
                out[channels * x + c] = total


@Compiled
def deinterleave(mixed: Array, channels: int, line: Array) -> None:
    """Copy interleaved channels to one plane per channel."""
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
    """Round, scale and deinterleave three channels in one pass.

    The result equals `deinterleave` followed by `apply_color_ops` with HALVES_UP and SCALE.

    Args:
        mixed: float32 (3 * pixels,), interleaved.
        terms: Terms of HALVES_UP and SCALE, as for `apply_color_ops`.
        out: float32.
        start: Offset of the first channel.
        plane: Distance between channels, in elements.
        size: Number of pixels.
    """
    low, high, half = terms[0, 0, 0], terms[0, 1, 0], np.float32(0.5)
    a, b, c = terms[1, 0, 0], terms[1, 0, 1], terms[1, 0, 2]
    by_a, by_b, by_c = terms[1, 1, 0], terms[1, 1, 1], terms[1, 1, 2]
    plus_a, plus_b, plus_c = terms[1, 2, 0], terms[1, 2, 1], terms[1, 2, 2]
    red, green, blue = out[start : start + size], out[start + plane :], out[start + 2 * plane :]
    for x in range(size):
        i = np.uint64(3 * x)
        # The values are clipped first, so truncation to int32 rounds positive halves up and cannot overflow.
        red[x] = (np.float32(np.int32(clip(mixed[i] + half, low, high))) - a) * by_a + plus_a
        green[x] = (np.float32(np.int32(clip(mixed[i + _U1] + half, low, high))) - b) * by_b + plus_b
        blue[x] = (np.float32(np.int32(clip(mixed[i + _U2] + half, low, high))) - c) * by_c + plus_c


@Compiled
def pick_row(
    pixels: Array, start: int, step: int, channel: int, channels: int, low: int, high: int, line: Array
) -> None:
    """Copy a row of pixels as floats, one channel after the other; zero outside of [low, high)."""
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
    """Multiply three channels by a matrix: ``factors[j, c]`` is the factor of channel j for channel c."""
    size = line.shape[0] // 3
    reds, greens, blues = line[:size], line[size : 2 * size], line[2 * size : 3 * size]
    by_red, by_green, by_blue = factors[0], factors[1], factors[2]
    # All three inputs are read before the first output is written, because the operation is in place.
    for x in range(size):
        red, green, blue = reds[x], greens[x], blues[x]
        reds[x] = red * by_red[0] + green * by_green[0] + blue * by_blue[0]
        greens[x] = red * by_red[1] + green * by_green[1] + blue * by_blue[1]
        blues[x] = red * by_red[2] + green * by_green[2] + blue * by_blue[2]


@Compiled
def apply_color_ops(line: Array, channels: int, codes: Array, terms: Array, low: int, high: int) -> None:
    """Apply a sequence of operations to the values of a row of pixels.

    Args:
        line: float32 (channels * pixels,), one channel after the other, changed in place.
        channels: Number of channels; 1 if the operations treat all channels alike.
        codes: int64, one per operation: SCALE, HALVES_UP, HALVES_AWAY, FILL or MIX.
        terms: float32 (operations, 3, channels). SCALE: ``(value - terms[0]) * terms[1] + terms[2]``. HALVES_UP,
            HALVES_AWAY: the nearest integer in [terms[0], terms[1]], halves up or away from zero. FILL: the value
            outside of the image. MIX: the factors of `mix_channels`.
        low: First pixel inside the image.
        high: End of the pixels inside the image (exclusive).
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
                    values[x] = np.float32(np.int32(clip(values[x] + np.float32(0.5), a, b)))
            elif code == HALVES_AWAY:
                for x in range(size):
                    value = values[x]
                    magnitude = abs(value)
                    # `math.floor` would return an integer, which is not vectorized. Adding a half before the floor
                    # would round 0.49999997 up, because the sum rounds to 1.
                    whole = np.floor(magnitude)
                    whole = whole + np.float32(1) if magnitude - whole >= np.float32(0.5) else whole
                    # NaN becomes 0, as in `cast_saturating`.
                    value = (-whole if value < 0 else whole) if value == value else np.float32(0)
                    values[x] = clip(value, a, b)
            else:
                for x in range(low):
                    values[x] = a
                for x in range(high, size):
                    values[x] = a


@Compiled
def same_for_all(codes: Array, terms: Array) -> bool:
    """Return True if the operations treat all channels alike and do not mix them."""
    same = True
    for k in range(terms.shape[0]):
        same = same and codes[k] != MIX
        for i in range(terms.shape[1]):
            for c in range(1, terms.shape[2]):
                same = same and terms[k, i, c] == terms[k, i, 0]
    return same


@Compiled
def single_scale_op(codes: Array) -> int:
    """Return the index of the only SCALE if all other operations are FILL; otherwise -1."""
    index = -1
    for k in range(codes.shape[0]):
        if codes[k] != FILL:
            # -2 remains: neither this SCALE nor a later one can be the only operation.
            index = k if codes[k] == SCALE and index == -1 else -2
    return index if index >= 0 else -1


@Compiled
def same_numbers(a: Array, b: Array) -> bool:
    """Return True if two rows of numbers are equal."""
    same = True
    for k in range(a.shape[0]):
        same = same and a[k] == b[k]
    return same


@Compiled
def columns_inside(axis: Array) -> tuple[int, int]:
    """Return the range of output pixels of a non-resampled axis that are inside the image, as (first, end)."""
    length = int(axis[LENGTH])
    low = clip(int(-axis[START]), 0, length)
    high = clip(int(axis[END] - axis[BEGIN] - axis[START]), low, length)
    if axis[MIRRORED]:
        return length - high, length - low
    return low, high
