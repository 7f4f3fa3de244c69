"""Median filter over rectangles."""
# pyright: basic
# JAX is typed in part only

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.image.describe.custom_pass import CustomPass, PassImages, as_planes, from_planes
from penstock.image.kernels.border_modes import Border
from penstock.image.kernels.plane_io import load_row, store_plane
from penstock.image.passes.shifted_pixels import read_along
from penstock.native.compiled import Compiled, precompile

# Largest rectangle that `median_of_few` handles, in pixels: its counters are bytes.
MOST = 255

# Bytes per block (at least a row): the four rows of this length stay in the L1 cache.
_BLOCK_BYTES = 8192


@precompile("u1[1] i8[2] i8[2] i8[2] u1[1] u1[2] u1[1] i8[2]")
@Compiled
def median_of_few(
    pixels: Array, place_in: Array, sizes: Array, radii: Array, plane: Array, lines: Array, out: Array, place_out: Array
) -> None:
    """Compute the median of a rectangle of at most `MOST` bytes for each pixel.

    Args:
        pixels: uint8.
        place_in: int64 (planes, 4), offset of the first element, then the strides of rows, columns and channels.
        sizes: int64 (planes, 3), height, width, channels.
        radii: int64 (planes or 1, 2), radii of the rectangle along columns and rows.
        plane: uint8, for the largest plane with its margins; overwritten.
        lines: uint8 (4, n), for the rows of a block with their margins; overwritten.
        out: uint8.
        place_out: As `place_in`.
    """
    for n in range(place_in.shape[0]):
        r_y, r_x = radii[n % radii.shape[0]]
        height, width, channels = sizes[n, 0], sizes[n, 1], sizes[n, 2]
        before, inner = r_x * channels, width * channels
        across = inner + 2 * before
        for y in range(height + 2 * r_y):
            row = plane[y * across : (y + 1) * across]
            at = place_in[n, 0] + min(max(y - r_y, 0), height - 1) * place_in[n, 1]
            load_row(pixels, at, place_in[n], channels, row[before : before + inner])
            # Margins repeat the edge pixels, so the medians need no test for edges.
            for i in range(before):
                row[i] = row[before + i % channels]
                row[before + inner + i] = row[before + inner - channels + i % channels]
        rows = max(lines.shape[1] // max(across, 1), 1)
        for first in range(0, height, rows):
            count = min(rows, height - first)
            block, size = plane[first * across :], count * across
            if r_y == 1 and r_x == 1:
                median_of_nine(block, across, channels, size, lines)
            else:
                median_by_bits(block, across, channels, r_y, r_x, size, lines)
            for y in range(count):
                store_plane(lines[0, y * across : y * across + inner], first + y, channels, out, place_out[n])


@Compiled
def median_of_nine(block: Array, across: int, channels: int, size: int, lines: Array) -> None:
    """Compute the median of 3x3 pixels with a sorting network.

    Each column is sorted. The median is then the median of the largest minimum, the median middle value and the
    smallest maximum.

    Args:
        block: uint8, consecutive rows with their margins; the first is above the first pixel.
        across: Bytes per row.
        channels: Bytes per pixel.
        size: Number of medians to compute.
        lines: uint8 (4, n); the first row receives the medians.
    """
    medians, least, middle, greatest = lines[0], lines[1], lines[2], lines[3]
    one, two, three = block[:size], block[across : across + size], block[2 * across : 2 * across + size]
    # Minimum and maximum without branches vectorize to 16 or more bytes at a time; neighboring pixels share sorted
    # columns.
    for i in range(size):
        a, b, c = one[i], two[i], three[i]
        low, high = min(a, b), max(a, b)
        least[i], middle[i], greatest[i] = min(low, c), max(low, min(high, c)), max(high, c)
    least_b, middle_b, greatest_b = least[channels:], middle[channels:], greatest[channels:]
    least_c, middle_c, greatest_c = least_b[channels:], middle_b[channels:], greatest_b[channels:]
    for i in range(size - 2 * channels):
        a = max(least[i], least_b[i], least_c[i])
        c = min(greatest[i], greatest_b[i], greatest_c[i])
        low, high = min(middle[i], middle_b[i]), max(middle[i], middle_b[i])
        b = max(low, min(high, middle_c[i]))
        low, high = min(a, b), max(a, b)
        medians[i] = max(low, min(high, c))


@Compiled
def median_by_bits(block: Array, across: int, channels: int, r_y: int, r_x: int, size: int, lines: Array) -> None:
    """Compute the median of any rectangle by binary search over the bits of the result, all pixels at once.

    A bit is set if too few pixels of the rectangle are less than the value with that bit.

    Args:
        block: As for `median_of_nine`.
        across: As for `median_of_nine`.
        channels: As for `median_of_nine`.
        r_y: Radius along columns.
        r_x: Radius along rows.
        size: As for `median_of_nine`.
        lines: As for `median_of_nine`.
    """
    medians, limit, counts = lines[0, :size], lines[1, :size], lines[2, :size]
    # Eight passes of comparisons that vectorize are faster than sorting each rectangle.
    half, bit = np.uint8((2 * r_y + 1) * (2 * r_x + 1) // 2), np.uint8(128)
    medians[:] = 0
    while bit > 0:
        counts[:] = 0
        for i in range(size):
            limit[i] = medians[i] + bit
        for y in range(2 * r_y + 1):
            for x in range(2 * r_x + 1):
                start = y * across + x * channels
                values = block[start : start + size]
                for i in range(size):
                    counts[i] += values[i] < limit[i]
        for i in range(size):
            medians[i] += bit * (counts[i] <= half)
        bit = np.uint8(bit >> 1)


@dataclass(frozen=True)
class MedianPass(CustomPass):
    """Median of a rectangle around each pixel, for each channel separately.

    Beyond the edge, the edge pixels are repeated. The term contains two numbers: the radii along columns and rows.

    Args:
        layout: Layout of the images.
    """

    layout: str

    def run_host(self, images: PassImages, terms: Sequence[Any]) -> None:
        """Filter all planes in one call: bytes by comparing or counting, floats by selection."""
        planes = images.planes(self.layout)
        radii = planes.term(terms[0], np.int64)
        places = planes.read, planes.sizes_in, radii
        if planes.pixels.dtype == np.uint8 and (2 * radii + 1).prod(axis=1).max(initial=1) <= MOST:
            sizes, margins = planes.sizes_in.max(axis=0, initial=0), 2 * radii.max(axis=0, initial=0)
            across = int((sizes[1] + margins[1]) * sizes[2])
            plane = np.empty(int(sizes[0] + margins[0]) * across + int(margins[1] * sizes[2]), np.uint8)
            memory = plane, np.empty((4, max(across, _BLOCK_BYTES)), np.uint8)
            median_of_few(planes.pixels, *places, *memory, planes.out, planes.write)
        elif planes.pixels.dtype == np.uint8:
            counts = np.empty(256, np.int64)
            median_of_bytes(planes.pixels, *places, counts, planes.out, planes.write)
        else:
            window = np.empty(int((2 * radii + 1).prod(axis=1).max(initial=1)), np.float32)
            median_of_floats(planes.pixels, *places, window, planes.out, planes.write)

    def trace_xla(self, images: Any, shapes: Any, terms: Sequence[Any], out_shapes: Any, shape: tuple[int, ...]) -> Any:
        """Search the bits of the medians, from the highest one, over integer codes that sort like the values."""
        import jax  # noqa: PLC0415  # for the device program alone
        import jax.numpy as jnp  # noqa: PLC0415  # likewise

        radii = jnp.asarray(terms[0]).astype(np.int32)
        values = as_planes(images, self.layout)
        wide = values.dtype != np.uint8
        if wide:
            bits = jax.lax.bitcast_convert_type(values.astype(np.float32), np.uint32)
            # IEEE 754 floats sort like their bits if the sign bit of positive numbers is set and all bits of negative
            # ones are inverted.
            codes = jnp.where(bits >> np.uint32(31), ~bits, bits | np.uint32(1 << 31))
        else:
            codes = values.astype(np.uint32)
        half = jnp.prod(2 * radii + 1, axis=1).reshape(-1, 1, 1, 1, 1) // 2
        most = jnp.max(radii, axis=0)
        across = 2 * most[1] + 1
        extents = [shapes[:, self.layout.index(letter)] for letter in "HW"]

        def step(number: Any, medians: Any) -> Any:
            bit = np.uint32(1) << ((31 if wide else 7) - number).astype(np.uint32)
            less = medians | (bit - np.uint32(1))

            def count(k: Any, counts: Any) -> Any:
                picked, inside = codes, jnp.ones(len(radii), bool)
                for axis, (extent, tap) in enumerate(zip(extents, (k // across, k % across), strict=True)):
                    off = tap - most[axis]
                    at = jnp.arange(codes.shape[axis + 2])[None, :] + off
                    picked, _ = read_along(picked, axis + 2, at, extent, Border.REPLICATE)
                    inside = inside & (abs(off) <= radii[:, axis])
                return counts + ((picked <= less) & inside.reshape(-1, 1, 1, 1, 1))

            counts = jax.lax.fori_loop(0, (2 * most[0] + 1) * across, count, jnp.zeros(codes.shape, np.int32))
            return jnp.where(counts <= half, medians | bit, medians)

        medians = jax.lax.fori_loop(0, 32 if wide else 8, step, jnp.zeros_like(codes))
        if wide:
            # The inverse of the mapping above.
            bits = jnp.where(medians >> np.uint32(31), medians ^ np.uint32(1 << 31), ~medians)
            return from_planes(jax.lax.bitcast_convert_type(bits, np.float32), self.layout, shape)
        return from_planes(medians.astype(np.uint8), self.layout, shape)


@precompile("u1[1] i8[2] i8[2] i8[2] i8[1] u1[1] i8[2]")
@Compiled
def median_of_bytes(
    pixels: Array, place_in: Array, sizes: Array, radii: Array, counts: Array, out: Array, place_out: Array
) -> None:
    """Compute medians of bytes from a histogram that is updated while the rectangle moves along a row.

    The algorithm is that of Huang, Yang and Tang, "A fast two-dimensional median filtering algorithm" (1979).

    Args:
        pixels: uint8.
        place_in: int64 (planes, 4), offset of the first element, then the strides of rows, columns and channels.
        sizes: int64 (planes, 3), height, width, channels.
        radii: int64 (planes or 1, 2), radii of the rectangle along columns and rows.
        counts: int64 (256,); overwritten.
        out: uint8.
        place_out: As `place_in`.
    """
    for n in range(place_in.shape[0]):
        r_y, r_x = radii[n % radii.shape[0]]
        height, width = sizes[n, 0], sizes[n, 1]
        step_y, step_x = place_in[n, 1], place_in[n, 2]
        half = (2 * r_y + 1) * (2 * r_x + 1) // 2
        for c in range(sizes[n, 2]):
            at, to = place_in[n, 0] + c * place_in[n, 3], place_out[n, 0] + c * place_out[n, 3]
            for y in range(height):
                counts[:] = 0
                for i in range(y - r_y, y + r_y + 1):
                    row = at + min(max(i, 0), height - 1) * step_y
                    for j in range(-r_x, r_x + 1):
                        counts[pixels[row + min(max(j, 0), width - 1) * step_x]] += 1
                value, below = 0, 0  # the current median, and the number of bytes less than it
                for x in range(width):
                    if x > 0:
                        leaves, enters = max(x - 1 - r_x, 0) * step_x, min(x + r_x, width - 1) * step_x
                        for i in range(y - r_y, y + r_y + 1):
                            row = at + min(max(i, 0), height - 1) * step_y
                            old, new = np.int64(pixels[row + leaves]), np.int64(pixels[row + enters])
                            counts[old] -= 1
                            counts[new] += 1
                            below += (1 if new < value else 0) - (1 if old < value else 0)
                    # The median moves little from one pixel to the next, so the search continues from the previous
                    # value.
                    while below > half:
                        value -= 1
                        below -= counts[value]
                    while below + counts[value] <= half:
                        below += counts[value]
                        value += 1
                    out[to + y * place_out[n, 1] + x * place_out[n, 2]] = value


@Compiled
def median_of_floats(
    pixels: Array, place_in: Array, sizes: Array, radii: Array, window: Array, out: Array, place_out: Array
) -> None:
    """Compute medians of floats by partially sorting each rectangle.

    Args:
        pixels: float32.
        place_in: int64 (planes, 4), offset of the first element, then the strides of rows, columns and channels.
        sizes: int64 (planes, 3), height, width, channels.
        radii: int64 (planes or 1, 2), radii of the rectangle along columns and rows.
        window: float32, for the largest rectangle; overwritten.
        out: float32.
        place_out: As `place_in`.
    """
    for n in range(place_in.shape[0]):
        r_y, r_x = radii[n % radii.shape[0]]
        height, width = sizes[n, 0], sizes[n, 1]
        size = (2 * r_y + 1) * (2 * r_x + 1)
        for c in range(sizes[n, 2]):
            at, to = place_in[n, 0] + c * place_in[n, 3], place_out[n, 0] + c * place_out[n, 3]
            for y in range(height):
                for x in range(width):
                    k = 0
                    for i in range(y - r_y, y + r_y + 1):
                        row = at + min(max(i, 0), height - 1) * place_in[n, 1]
                        for j in range(x - r_x, x + r_x + 1):
                            window[k] = pixels[row + min(max(j, 0), width - 1) * place_in[n, 2]]
                            k += 1
                    out[to + y * place_out[n, 1] + x * place_out[n, 2]] = quickselect(window, size, size // 2)


@Compiled
def quickselect(values: Array, size: int, rank: int) -> float:
    """Return the value of a rank (from 0) among the first `size` values, which are reordered.

    The algorithm is Hoare's selection (1961).
    """
    low, high = 0, size - 1
    while low < high:
        pivot, i, j = values[rank], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while pivot < values[j]:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if j < rank:
            low = i
        if rank < i:
            high = j
    return values[rank]
