"""Compiled loops for the median of small rectangles of bytes: many pixels at a time. `median` calls them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array
from penstock.image.describe.custom_pass import CustomPass, Planes, as_planes, from_planes
from penstock.image.kernels.plane_io import load_row, store_plane
from penstock.image.passes.correlation_pass import border_indices
from penstock.native.compiled import Compiled, precompile

if TYPE_CHECKING:
    from penstock.image.kernels.strided_images import StridedImages


MOST = 255
"""Rectangles have at most this many pixels, as bytes count them."""

TOGETHER = 8192
"""So many bytes are computed together, or a row: they stay in the nearest cache."""


@precompile("u1[1] i8[2] i8[2] i8[2] u1[1] u1[2] u1[1] i8[2]")
@Compiled
def median_of_few(
    pixels: Array, place_in: Array, sizes: Array, radii: Array, plane: Array, lines: Array, out: Array, place_out: Array
) -> None:
    """Planes of bytes, each pixel the median of a rectangle of at most `MOST` pixels.

    Args:
        pixels: uint8.
        place_in: int64 (planes, 4): the first element, and the distances to the next row, column and channel.
        sizes: int64 (planes, 3): height, width, channels.
        radii: int64 (planes or 1, 2): of the rectangle, along columns and along rows.
        plane: uint8, for the largest plane with what is beyond its edges; overwritten.
        lines: uint8 (4, n), for rows that are computed together, with what is beyond their edges; overwritten.
        out: uint8.
        place_out: as `place_in`.
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
            for i in range(before):
                row[i] = row[before + i % channels]
                row[before + inner + i] = row[before + inner - channels + i % channels]
        rows = max(lines.shape[1] // max(across, 1), 1)
        for first in range(0, height, rows):
            count = min(rows, height - first)
            seen, size = plane[first * across :], count * across
            if r_y == 1 and r_x == 1:
                median_of_nine(seen, across, channels, size, lines)
            else:
                median_by_bits(seen, across, channels, r_y, r_x, size, lines)
            for y in range(count):
                store_plane(lines[0, y * across : y * across + inner], first + y, channels, out, place_out[n])


@Compiled
def median_of_nine(seen: Array, across: int, channels: int, size: int, lines: Array) -> None:
    """The median of three by three pixels: columns in order, then the middle one of their least, middle and greatest.

    Args:
        seen: uint8, rows with what is beyond their edges, one after the other; the first is above the first pixel.
        across: how many bytes a row has.
        channels: how many of them a pixel has.
        size: so many medians are found.
        lines: uint8 (4, n); the first receives the medians.
    """
    made, least, middle, greatest = lines[0], lines[1], lines[2], lines[3]
    one, two, three = seen[:size], seen[across : across + size], seen[2 * across : 2 * across + size]
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
        made[i] = max(low, min(high, c))


@Compiled
def median_by_bits(seen: Array, across: int, channels: int, r_y: int, r_x: int, size: int, lines: Array) -> None:
    """The median of any rectangle, bit by bit: one is set where too few pixels are less without it.

    Args:
        seen: as for `median_of_nine`.
        across: likewise.
        channels: likewise.
        r_y: radius along columns.
        r_x: along rows.
        size: likewise.
        lines: likewise.
    """
    made, limit, counts = lines[0, :size], lines[1, :size], lines[2, :size]
    half, bit = np.uint8((2 * r_y + 1) * (2 * r_x + 1) // 2), np.uint8(128)
    made[:] = 0
    while bit > 0:
        counts[:] = 0
        for i in range(size):
            limit[i] = made[i] + bit
        for y in range(2 * r_y + 1):
            for x in range(2 * r_x + 1):
                start = y * across + x * channels
                values = seen[start : start + size]
                for i in range(size):
                    counts[i] += values[i] < limit[i]
        for i in range(size):
            made[i] += bit * (counts[i] <= half)
        bit = np.uint8(bit >> 1)


# pyright: basic
# JAX is typed in part only


@dataclass(frozen=True)
class MedianPass(CustomPass):
    """The median of a rectangle around each pixel, of each channel for itself.

    Beyond the edge, the outermost pixels go on. Its term has two numbers: the radii along columns and along rows.

    Args:
        layout: of the images.
    """

    layout: str

    def run_host(
        self,
        source: StridedImages,
        given: NDArray[np.int64],
        terms: Sequence[Any],
        target: StridedImages,
        made: NDArray[np.int64],
    ) -> None:
        """All planes in one call; of bytes by comparing or counting them, of floats by selection."""
        planes = Planes.of(self.layout, source, given, target, made)
        radii = planes.term(terms[0], np.int64)
        places = planes.read, planes.given, radii
        if source.values.dtype == np.uint8 and (2 * radii + 1).prod(axis=1).max(initial=1) <= MOST:
            sizes, margins = planes.given.max(axis=0, initial=0), 2 * radii.max(axis=0, initial=0)
            across = int((sizes[1] + margins[1]) * sizes[2])
            plane = np.empty(int(sizes[0] + margins[0]) * across + int(margins[1] * sizes[2]), np.uint8)
            memory = plane, np.empty((4, max(across, TOGETHER)), np.uint8)
            median_of_few(source.values, *places, *memory, target.values, planes.write)
        elif source.values.dtype == np.uint8:
            counts = np.empty(256, np.int64)
            median_of_bytes(source.values, *places, counts, target.values, planes.write)
        else:
            window = np.empty(int((2 * radii + 1).prod(axis=1).max(initial=1)), np.float32)
            median_of_floats(source.values, *places, window, target.values, planes.write)

    def trace_xla(self, images: Any, given: Any, terms: Sequence[Any], made: Any, shape: tuple[int, ...]) -> Any:
        """Bit by bit, of values as whole numbers of the same order: a bit is set where too few are less without it."""
        import jax  # noqa: PLC0415  # for the device program alone
        import jax.numpy as jnp  # noqa: PLC0415  # likewise

        radii = jnp.asarray(terms[0]).astype(np.int32)
        values = as_planes(images, self.layout)
        wide = values.dtype != np.uint8
        if wide:
            bits = jax.lax.bitcast_convert_type(values.astype(np.float32), np.uint32)
            codes = jnp.where(bits >> np.uint32(31), ~bits, bits | np.uint32(1 << 31))
        else:
            codes = values.astype(np.uint32)
        half = jnp.prod(2 * radii + 1, axis=1).reshape(-1, 1, 1, 1, 1) // 2
        most = jnp.max(radii, axis=0)
        across = 2 * most[1] + 1
        extents = [given[:, self.layout.index(letter)][:, None] for letter in "HW"]

        def step(number: Any, found: Any) -> Any:
            bit = np.uint32(1) << ((31 if wide else 7) - number).astype(np.uint32)
            less = found | (bit - np.uint32(1))

            def count(k: Any, counts: Any) -> Any:
                picked, inside = codes, jnp.ones(len(radii), bool)
                for axis, (extent, number) in enumerate(zip(extents, (k // across, k % across), strict=True)):
                    off = number - most[axis]
                    index, _ = border_indices("clamp", jnp.arange(codes.shape[axis + 2])[None, :] + off, extent)
                    line = (-1, *(index.shape[1] if at == axis + 2 else 1 for at in range(1, 5)))
                    picked = jnp.take_along_axis(picked, index.reshape(line), axis=axis + 2)
                    inside = inside & (abs(off) <= radii[:, axis])
                return counts + ((picked <= less) & inside.reshape(-1, 1, 1, 1, 1))

            counts = jax.lax.fori_loop(0, (2 * most[0] + 1) * across, count, jnp.zeros(codes.shape, np.int32))
            return jnp.where(counts <= half, found | bit, found)

        found = jax.lax.fori_loop(0, 32 if wide else 8, step, jnp.zeros_like(codes))
        if wide:
            bits = jnp.where(found >> np.uint32(31), found ^ np.uint32(1 << 31), ~found)
            return from_planes(jax.lax.bitcast_convert_type(bits, np.float32), self.layout, shape)
        return from_planes(found.astype(np.uint8), self.layout, shape)


@precompile("u1[1] i8[2] i8[2] i8[2] i8[1] u1[1] i8[2]")
@Compiled
def median_of_bytes(
    pixels: Array, place_in: Array, sizes: Array, radii: Array, counts: Array, out: Array, place_out: Array
) -> None:
    """Planes of bytes: counts of the bytes of the rectangle are kept up to date while it moves along a row.

    The algorithm is that of Huang, Yang and Tang, "A fast two-dimensional median filtering algorithm" (1979).

    Args:
        pixels: uint8.
        place_in: int64 (planes, 4): the first element, and the distances to the next row, column and channel.
        sizes: int64 (planes, 3): height, width, channels.
        radii: int64 (planes or 1, 2): of the rectangle, along columns and along rows.
        counts: int64 (256,); overwritten.
        out: uint8.
        place_out: as `place_in`.
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
                value, below = 0, 0  # how many bytes are less than the value
                for x in range(width):
                    if x > 0:
                        leaves, enters = max(x - 1 - r_x, 0) * step_x, min(x + r_x, width - 1) * step_x
                        for i in range(y - r_y, y + r_y + 1):
                            row = at + min(max(i, 0), height - 1) * step_y
                            old, new = np.int64(pixels[row + leaves]), np.int64(pixels[row + enters])
                            counts[old] -= 1
                            counts[new] += 1
                            below += (1 if new < value else 0) - (1 if old < value else 0)
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
    """Planes of floats: the pixels of each rectangle, as far as it takes, are put in order.

    Args:
        pixels: float32.
        place_in: int64 (planes, 4): the first element, and the distances to the next row, column and channel.
        sizes: int64 (planes, 3): height, width, channels.
        radii: int64 (planes or 1, 2): of the rectangle, along columns and along rows.
        window: float32, as many as the largest rectangle has; overwritten.
        out: float32.
        place_out: as `place_in`.
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
    """The value of a rank, counted from 0, of the first `size` values, by Hoare's selection (1961); they are moved."""
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
