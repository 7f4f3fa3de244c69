"""Compiled loops of the row executor: resample or copy pixels from memory to memory, many images per call.

An image is in flat memory. Its *place* is the offset of its first element and the strides between rows, columns and
channels, in elements. Strides may be negative: a mirrored image is the same memory, read backwards.

An axis mapping is a row of numbers (`penstock.image.describe.axis_mapping`). Each loop is also a plain Python function
(`.python_function`), against which tests compare the compiled one.
"""

from itertools import product

import numpy as np

from penstock.core import Array
from penstock.image.kernels.filter_taps import BEGIN, END, LENGTH, MIRRORED, START, filter_taps
from penstock.image.kernels.row_arithmetic import (
    HALVES_AWAY,
    SCALE,
    apply_color_ops,
    blend_columns,
    blend_rows,
    columns_inside,
    deinterleave,
    pick_row,
    same_for_all,
    same_numbers,
    scale_and_deinterleave,
    single_scale_op,
)
from penstock.image.kernels.table_rows import (
    fill_margins,
    fill_outside,
    map_one_channel,
    map_three_channels,
    mix_bytes,
    scale_bytes,
    scale_planes,
    scale_to_floats,
)
from penstock.native.compiled import Compiled, precompile

# Table entries per channel: 256 bytes, and one for pixels outside of the image.
_ENTRIES = np.uint64(257)

# Dtypes of pixels that are read and written.
_DTYPES = tuple(product(("u1", "f4"), repeat=2))

# Constants of the variants of `blend`; each combination is compiled separately (`blending`). Some images are resampled;
# some are only copied; resampled ones are rounded, scaled and deinterleaved; copied bytes are mixed without float rows.
RESAMPLES = PICKS = FINISHES = MIXES = True


def blending(resamples: bool, picks: bool, finishes: bool, linear: bool, mixes: bool) -> dict[str, bool]:
    """Return the constants of the `blend` variant for a batch.

    Args:
        resamples: True if some images are resampled.
        picks: True if some images are only copied.
        finishes: True if three channels are rounded (halves up), scaled and written as planes of floats.
        linear: True if all filters are triangles.
        mixes: True if three channels of bytes are mixed, scaled and rounded (halves away from zero), and nothing else.
    """
    # Rare combinations share one variant that handles everything, because each variant is compiled ahead of time in
    # every release build.
    usual = linear and resamples
    return {
        "RESAMPLES": resamples,
        "PICKS": picks or not usual,
        "FINISHES": finishes and resamples,
        "ANY_CHANNELS": not (finishes and resamples),
        "ANY_FILTER": resamples and not usual,
        "MIXES": mixes and not resamples,
    }


_VARIANTS = {
    tuple(constants.values()): constants
    for flags in product((True, False), repeat=5)
    for constants in [blending(*flags)]
}


def scratch(rows: Array, columns: Array, most_taps: int, channels: int) -> tuple[Array, Array, Array]:
    """Allocate the last three memory arguments of `blend`: weights, rows and indices."""
    height, width = int(rows[:, LENGTH].max(initial=0)), int(columns[:, LENGTH].max(initial=0))
    extent = int((columns[:, END] - columns[:, BEGIN]).max(initial=0))
    return (
        np.empty((height + width, most_taps), np.float32),
        np.empty((2 * width + extent + 5) * channels, np.float32),
        np.empty(2 * (height + width), np.int64),
    )


@precompile(
    *(f"{a}[1] i8[2] f8[2] f8[2] b1[1] i8[1] f4[4] {b}[1] i8[2] f4[2] f4[1] i8[1] i8 i8" for a, b in _DTYPES),
    variants=list(_VARIANTS.values()),
)
@Compiled
def blend(  # noqa: C901  # one function: numba inlines what is called per row only into the loop itself
    pixels: Array,
    place_in: Array,
    rows: Array,
    columns: Array,
    resampled: Array,
    codes: Array,
    terms: Array,
    out: Array,
    place_out: Array,
    weights: Array,
    memory: Array,
    firsts: Array,
    start: int,
    stop: int,
) -> None:
    """Resample or copy images and apply color operations, from memory to memory.

    Args:
        pixels: uint8 or float32.
        place_in: int64 (images, 4).
        rows: float64 (images, 10), axis mapping of the height.
        columns: float64 (images, 10), axis mapping of the width.
        resampled: bool (images,), False for images that are only copied.
        codes: Color operations, as for `apply_color_ops`.
        terms: float32 (images or 1, operations, 3, channels).
        out: uint8 or float32. For uint8, the values must be integers from 0 to 255.
        place_out: int64 (images, 4).
        weights: float32 (height + width, taps), for the largest result; overwritten.
        memory: float32, for rows; overwritten.
        firsts: int64, for indices; overwritten.
        start: First image to process.
        stop: End of the images to process (exclusive).
    """
    channels = terms.shape[3]
    height, width = 0, 0
    for n in range(place_in.shape[0]):
        if rows[n, LENGTH] > height:
            height = int(rows[n, LENGTH])
        if columns[n, LENGTH] > width:
            width = int(columns[n, LENGTH])
    first_y, counts_y = firsts[:height], firsts[height : 2 * height]
    first_x, counts_x = firsts[2 * height : 2 * height + width], firsts[2 * height + width : 2 * (height + width)]
    weights_y, weights_x, row = weights[:height], weights[height:], memory[(2 * width + 1) * channels :]
    mixed = memory[width * channels :]
    # The rows of numbers for which the current taps were computed: images with the same numbers share them.
    known_y, known_x = -1, -1
    left, needed, most = 0, 0, 0
    for n in range(start, stop):
        height, width = int(rows[n, LENGTH]), int(columns[n, LENGTH])
        begin, down, right, channel = place_in[n, 0], place_in[n, 1], place_in[n, 2], place_in[n, 3]
        line, together = memory[: channels * width], False
        low_y, high_y, low_x, high_x = 0, height, 0, width
        first_row, first_column, step_x = 0, 0, right
        if RESAMPLES and (not PICKS or resampled[n]):
            if not FINISHES:
                uniform = same_for_all(codes, terms[n % terms.shape[0]])
                together = uniform and place_out[n, 2] == channels and place_out[n, 3] == 1
                # Operations that treat channels alike work on interleaved rows, so the deinterleaving is skipped.
                if together:
                    line = mixed[: channels * width]
            if known_y < 0 or not same_numbers(rows[n], rows[known_y]):
                filter_taps(rows[n], first_y, counts_y, weights_y)
                known_y = n
            if known_x < 0 or not same_numbers(columns[n], columns[known_x]):
                filter_taps(columns[n], first_x, counts_x, weights_x)
                known_x = n
                left, end, most = first_x[0], 0, 0
                for x in range(width):
                    if first_x[x] < left:
                        left = first_x[x]
                    if counts_x[x] > most:
                        most = counts_x[x]
                    if first_x[x] + counts_x[x] > end:
                        end = first_x[x] + counts_x[x]
                for x in range(width):
                    first_x[x] = (first_x[x] - left) * channels  # from here on, an offset in `row`
                needed = (end - left) * channels
                # `blend_columns` reads up to four pixels past the end with a weight of zero. Old values there could be
                # NaN, and 0 * NaN is NaN.
                for i in range(needed, needed + 4 * channels):
                    row[i] = 0
        else:
            low_y, high_y = columns_inside(rows[n])
            low_x, high_x = columns_inside(columns[n])
            first_row, first_column = int(rows[n, BEGIN] + rows[n, START]), int(columns[n, BEGIN] + columns[n, START])
            # Color twists of whole, unmirrored RGB images skip the float rows.
            if MIXES:
                direct = low_y == low_x == 0 and high_y == height and high_x == width
                direct = direct and not (rows[n, MIRRORED] or columns[n, MIRRORED])
                if direct and right == 3 == place_out[n, 2] and channel == 1 == place_out[n, 3]:
                    at, to = begin + first_row * down + 3 * first_column, place_out[n, 0]
                    image_terms = terms[n % terms.shape[0]]
                    if down == 3 * width == place_out[n, 1]:  # without gaps: one long row
                        height, width = 1, height * width
                    for y in range(height):
                        mix_bytes(pixels, at + y * down, image_terms, out, to + y * place_out[n, 1], width)
                    continue
            if columns[n, MIRRORED]:
                first_column += width - 1
                step_x = -right
        for y in range(height):
            if RESAMPLES and (not PICKS or resampled[n]):
                at = begin + first_y[y] * down + left * right
                blend_rows(pixels, at, down, place_in[n], counts_y[y], weights_y[y], channels, row[:needed])
                blend_columns(row, channels, channels, first_x, counts_x[:width], most, weights_x, mixed)
                if FINISHES:
                    to = place_out[n, 0] + y * place_out[n, 1]
                    scale_and_deinterleave(mixed, terms[n % terms.shape[0]], out, to, place_out[n, 3], width)
                    continue
                if not together:
                    deinterleave(mixed, channels, line)
                apply_color_ops(line, 1 if together else channels, codes, terms[n % terms.shape[0]], 0, width)
            else:
                low, high = (low_x, high_x) if low_y <= y < high_y else (width, width)
                at = begin + (first_row + (height - 1 - y if rows[n, MIRRORED] else y)) * down + first_column * right
                pick_row(pixels, at, step_x, channel, channels, low, high, line)
                apply_color_ops(line, channels, codes, terms[n % terms.shape[0]], low, high)
            to = place_out[n, 0] + y * place_out[n, 1]
            if together:
                result = out[to : to + channels * width]
                for i in range(channels * width):
                    result[i] = line[i]
                continue
            for c in range(channels):
                values = line[c * width : (c + 1) * width]
                if place_out[n, 2] == 1:  # a contiguous slice vectorizes
                    result = out[to : to + width]
                    for x in range(width):
                        result[x] = values[x]
                else:
                    for x in range(width):
                        out[np.uint64(to + x * place_out[n, 2])] = values[x]
                to += place_out[n, 3]


@precompile(*(f"u1[1] i8[2] f8[2] f8[2] i8[1] f4[4] f4[1] {b}[1] u1[1] {b}[1] i8[2] i8 i8" for b in ("u1", "f4")))
@Compiled
def look_up(  # noqa: C901  # see `blend`
    pixels: Array,
    place_in: Array,
    rows: Array,
    columns: Array,
    codes: Array,
    terms: Array,
    table: Array,
    entries: Array,
    memory: Array,
    out: Array,
    place_out: Array,
    start: int,
    stop: int,
) -> None:
    """Copy uint8 images and apply color operations through a table.

    A byte has only 256 values, so the operations are applied once per value instead of once per pixel.

    Args:
        pixels: uint8.
        place_in: int64 (images, 4).
        rows: float64 (images, 10), axis mapping of the height.
        columns: float64 (images, 10), axis mapping of the width.
        codes: Color operations, as for `apply_color_ops`.
        terms: float32 (images or 1, operations, 3, channels).
        table: float32 (channels * 257,), per channel the result for each byte and for pixels outside; overwritten.
        entries: Receives the table in the dtype of `out`; may be `table`.
        memory: uint8, for some pixels; overwritten. May be `entries`.
        out: uint8 or float32. For uint8, the values must be integers from 0 to 255.
        place_out: int64 (images, 4).
        start: First image to process.
        stop: End of the images to process (exclusive).
    """
    channels, uniform, table_ready = terms.shape[3], False, False
    to_bytes = out.itemsize == 1
    rounds = to_bytes and codes.shape[0] == 2 and codes[0] == SCALE and codes[1] == HALVES_AWAY
    scale = -1 if to_bytes else single_scale_op(codes)
    for n in range(start, stop):
        if n == start or terms.shape[0] > 1:
            uniform, table_ready = same_for_all(codes, terms[n % terms.shape[0]]), False
        line = uniform and place_in[n, 2] == channels == place_out[n, 2] and not columns[n, MIRRORED]
        line = line and (channels == 1 or place_in[n, 3] == place_out[n, 3] == 1)
        low_y, high_y = columns_inside(rows[n])
        low_x, high_x = columns_inside(columns[n])
        height, width = int(rows[n, LENGTH]), int(columns[n, LENGTH])
        whole = low_y == low_x == 0 and high_y == height and high_x == width
        # A simple conversion is computed with vector instructions; a table lookup is scalar.
        direct = line and (rounds or scale >= 0)
        planar = scale >= 0 and channels == 3 == abs(place_in[n, 2]) and place_in[n, 3] == place_out[n, 2] == 1
        planar = planar and (whole or place_out[n, 1] == width)
        if not (table_ready or ((direct or planar) and whole)):
            table_ready, entries_used = True, table[:257] if uniform else table
            for i in range(entries_used.shape[0]):
                entries_used[i] = np.float32(i % 257)
            apply_color_ops(entries_used, 1 if uniform else channels, codes, terms[n % terms.shape[0]], 0, 256)
            for i in range(entries_used.shape[0], table.shape[0]):
                table[i] = table[i - 257]
            for i in range(table.shape[0]):
                entries[i] = table[i]
        first_y, step_y = int(rows[n, BEGIN] + rows[n, START]), place_in[n, 1]
        first_x, step_x = int(columns[n, BEGIN] + columns[n, START]), place_in[n, 2]
        begin = place_in[n, 0] + first_y * step_y + first_x * step_x
        if rows[n, MIRRORED]:
            begin += (height - 1) * step_y
            step_y = -step_y
        if columns[n, MIRRORED]:
            begin += (width - 1) * step_x
            step_x = -step_x
        if planar:
            place, own_terms, window = place_out[n], terms[n % terms.shape[0], scale], (low_y, high_y, low_x, high_x)
            scale_planes(pixels, begin, step_y, step_x < 0, own_terms, out, place, window, width, memory)
            if not whole:
                fill_outside(entries, window, (height, width), out, place)
            continue
        by, channel = np.uint64(step_x), np.uint64(place_in[n, 3])
        step, plane = np.uint64(place_out[n, 2]), np.uint64(place_out[n, 3])
        tables = channels
        if line:
            # Interleaved channels with the same table are one long channel,
            width, low_x, high_x = width * channels, low_x * channels, high_x * channels
            tables, by, step = 1, np.uint64(1), np.uint64(1)
            # and rows without gaps are one long row.
            if whole and step_y == width == place_out[n, 1]:
                width, high_x, height, high_y = width * height, width * height, 1, 1
        for y in range(height):
            low, high = (low_x, high_x) if low_y <= y < high_y else (width, width)
            at, to = np.uint64(begin + y * step_y), np.uint64(place_out[n, 0] + y * place_out[n, 1])
            if direct:
                start_x, count, own_terms = np.uint64(low), high - low, terms[n % terms.shape[0], :, :, 0]
                if to_bytes:
                    scale_bytes(pixels, at + start_x, own_terms, out, to + start_x, count)
                else:
                    scale_to_floats(pixels, at + start_x, own_terms[scale], out, to + start_x, count)
                if not whole:
                    fill_margins(entries[256], low, high, width, out, to)
                continue
            if tables == 3 and not to_bytes:
                map_three_channels(pixels, at, by, channel, entries, low, high, width, out, to, step, plane)
                continue
            for c in range(np.uint64(tables)):
                map_one_channel(pixels, at, by, entries, c * _ENTRIES, low, high, width, out, to, step)
                at += channel
                to += plane
