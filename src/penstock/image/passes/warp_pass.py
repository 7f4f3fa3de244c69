"""Warps: each result pixel is the image's value at a coordinate."""
# pyright: basic
# JAX is typed in part only

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.image.describe.custom_pass import CustomPass, PassImages, as_planes, from_planes
from penstock.image.kernels.border_modes import Border
from penstock.image.kernels.interpolate_rows import (
    all_weights,
    cubic_row,
    linear_row,
    linear_three,
    locate_taps,
    nearest_row,
    sample_outside,
    surround,
    weights,
)
from penstock.image.kernels.plane_io import store_rows
from penstock.image.kernels.row_arithmetic import same_numbers
from penstock.image.passes.sampling_coordinates import Affine, CoordinateMap, Projective, sample_coordinates
from penstock.image.passes.shifted_pixels import fold_index_xla
from penstock.native.compiled import Compiled, precompile
from penstock.numerics.ordered_sums import no_fma


class Interpolation(IntEnum):
    """Interpolation between pixels."""

    # The pixel at the coordinate.
    NEAREST = 0
    # Bilinear interpolation of four pixels.
    LINEAR = 1
    # Bicubic interpolation of sixteen pixels, with `penstock.image.kernels.interpolate_rows.weights`.
    CUBIC = 2


# Coordinates are computed for this many pixels at a time. Images up to this size can share them over the batch.
_TOGETHER = 1024

# Images of bytes up to this many elements are copied as floats with a margin, so that all taps are inside.
_SURROUNDED = 1 << 13


@dataclass(frozen=True)
class WarpPass(CustomPass):
    """Warp of an image by a coordinate map.

    The terms are the numbers of the map, and the fill value, one or one per channel.

    Args:
        layout: Layout of the images.
        places: Coordinate map.
        interpolation: Interpolation between pixels.
        border: Border mode.
    """

    layout: str
    places: CoordinateMap
    interpolation: Interpolation
    border: Border

    def source_map(self, terms: Sequence[Any]) -> Any:
        """Return the matrix if the map is affine or projective."""
        return terms[0] if isinstance(self.places, Affine | Projective) else super().source_map(terms)

    def nearest_twin(self, layout: str, terms: Sequence[Any], fill: float) -> tuple[CustomPass, Sequence[Any]]:
        """Return the same warp with nearest-neighbor interpolation and a constant border."""
        nearest = replace(self, layout=layout, interpolation=Interpolation.NEAREST, border=Border.CONSTANT)
        return nearest, (terms[0], np.array([[fill]], np.float32))

    def run_host(self, images: PassImages, terms: Sequence[Any]) -> None:
        """Warp all planes in one call."""
        planes = images.planes(self.layout)
        numbers, fill = planes.term(terms[0]), planes.term(terms[1])
        height, width, _ = planes.sizes_out.max(axis=0, initial=0).tolist()
        count, channels = min(max(_TOGETHER, width), height * width), int(planes.sizes_out[:, 2].max(initial=0))
        around, surrounded = 1 << int(self.interpolation), 0
        if self.border is Border.CONSTANT and planes.pixels.dtype == planes.out.dtype == np.uint8:
            # Four more elements: `linear_three` reads four values for the last pixel's three channels.
            surrounded = int((planes.sizes_in[:, :2] + 2 * around).prod(axis=1).max(initial=0)) * channels + 4
        warp(
            *(planes.pixels, planes.read, planes.sizes_in, self.places.code, numbers, self.places.table(height, width)),
            *(fill, around, int(self.border), planes.rounding),
            *(np.empty((10 if around == 4 else 2, count), np.float32), np.empty((3, count), np.int32)),
            *(np.empty(count * channels + 16, np.float32), np.empty(4, np.int64)),
            *(np.empty(surrounded if surrounded <= _SURROUNDED else 0, np.float32),),
            *(planes.out, planes.write, planes.sizes_out),
        )

    def trace_xla(self, images: Any, shapes: Any, terms: Sequence[Any], out_shapes: Any, shape: tuple[int, ...]) -> Any:
        """Gather from the flat pixels of each plane."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        planes = as_planes(images, self.layout)
        rows, _, rows_in, columns_in, channels = planes.shape
        size_y, size_x = (shapes[:, self.layout.index(letter)][:, None, None] for letter in "HW")
        height, width = (shape[self.layout.index(letter)] for letter in "HW")
        at_x, at_y = self.places.trace(jnp.asarray(terms[0]), (size_y, size_x), height, width)
        flat = planes.reshape(rows, -1, rows_in * columns_in, channels)
        fill = jnp.asarray(terms[1]).astype(np.float32)[:, None, None, None, :]

        def look_up(column: Any, row: Any) -> Any:
            exists = (column >= 0) & (column < size_x) & (row >= 0) & (row < size_y)
            column, row = (fold_index_xla(at, size, self.border) for at, size in ((column, size_x), (row, size_y)))
            index = jnp.broadcast_to(row * columns_in + column, (rows, height, width)).reshape(rows, 1, -1, 1)
            taps = jnp.take_along_axis(flat, index, axis=2).astype(np.float32)
            taps = taps.reshape(rows, -1, height, width, channels)
            if self.border is not Border.CONSTANT:
                return taps
            return jnp.where(jnp.broadcast_to(exists, (rows, height, width))[:, None, :, :, None], taps, fill)

        # Coordinates far outside, or infinite, must not overflow int32; NaN counts as outside, as on the host.
        limit = np.float32(1 << 24)
        back = np.float32(0 if self.interpolation is Interpolation.NEAREST else 0.5)
        at_x, at_y = (jnp.where(jnp.isnan(at), limit, jnp.clip(at - back, -limit, limit)) for at in (at_x, at_y))
        left, top = jnp.floor(at_x), jnp.floor(at_y)
        by_x, by_y = (at_x - left)[:, None, :, :, None], (at_y - top)[:, None, :, :, None]
        left, top = left.astype(np.int32), top.astype(np.int32)
        match self.interpolation:
            case Interpolation.NEAREST:
                values = look_up(left, top)
            case Interpolation.LINEAR:
                upper = look_up(left, top) + no_fma(jnp, by_x * (look_up(left + 1, top) - look_up(left, top)))
                beside = no_fma(jnp, by_x * (look_up(left + 1, top + 1) - look_up(left, top + 1)))
                lower = look_up(left, top + 1) + beside
                values = upper + no_fma(jnp, by_y * (lower - upper))
            case _:
                across, down = weights.python_function(by_x), weights.python_function(by_y)
                lines = [
                    sum(no_fma(jnp, by * look_up(left + k - 1, top + n - 1)) for k, by in enumerate(across))
                    for n in range(4)
                ]
                values = sum(no_fma(jnp, by * line) for by, line in zip(down, lines, strict=True))
        return from_planes(values, self.layout, shape)


_KINDS = "i8[2] i8[2] i8 f4[2] f4[1] f4[2] i8 i8 f4 f4[2] i4[2] f4[1] i8[1] f4[1]"


@Compiled
def sample(
    pixels: Array,
    offsets: Array,
    element: Array,
    around: int,
    place: Array,
    channels: int,
    rounding: Any,
    line: Array,
) -> None:
    """Interpolate those pixels of a run whose taps are all inside, with the loop for `around` taps per axis."""
    if around == 1:
        nearest_row(pixels, element, place, channels, rounding, line)
    elif around == 2:
        linear_row(pixels, element, offsets[0], offsets[1], place, channels, rounding, line)
    else:
        cubic_row(pixels, element, offsets[2:], place, channels, rounding, line)


@precompile(*(f"{a}[1] {_KINDS} {b}[1] i8[2] i8[2]" for a, b in (("u1", "u1"), ("u1", "f4"), ("f4", "f4"))))
@Compiled
def warp(
    pixels: Array,
    place_in: Array,
    size_in: Array,
    code: int,
    numbers: Array,
    table: Array,
    fills: Array,
    around: int,
    border: int,
    rounding: np.float32,
    offsets: Array,
    first: Array,
    line: Array,
    around_place: Array,
    around_image: Array,
    out: Array,
    place_out: Array,
    size_out: Array,
) -> None:
    """Warp planes of images.

    Args:
        pixels: uint8 or float32.
        place_in: int64 (planes, 4), offset of the first element, then the strides of rows, columns and channels.
        size_in: int64 (planes, 3), height, width, channels.
        code: Code of the coordinate map.
        numbers: float32 (planes or 1, n), numbers of the map.
        table: float32 (n,), table of the map.
        fills: float32 (planes or 1, channels or 1), fill values.
        around: Taps per axis: 1, 2 or 4.
        border: Border mode.
        rounding: Value to add before storing: 0.5 for integers.
        offsets: float32 (2, n), for the coordinates of n pixels, at least one row; (10, n) if `around` is 4;
            overwritten.
        first: int32 (3, n); overwritten.
        line: float32 (n * channels + 16,), for these pixels; overwritten.
        around_place: int64 (4,); overwritten.
        around_image: float32, for an image with its margin, or empty; overwritten.
        out: uint8 or float32.
        place_out: As `place_in`.
        size_out: As `size_in`.
    """
    for n in range(place_in.shape[0]):
        params, fill, place, size = numbers[n % numbers.shape[0]], fills[n % fills.shape[0]], place_in[n], size_in[n]
        height, width, channels = size_out[n, 0], size_out[n, 1], size_out[n, 2]
        rows = first.shape[1] // max(width, 1)
        # Planes of the same size with the same map share their coordinates and taps.
        known = n > 0 and numbers.shape[0] == 1 and rows >= height
        known = known and same_numbers(size, size_in[n - 1]) and same_numbers(size_out[n], size_out[n - 1])
        known = known and same_numbers(place[1:], place_in[n - 1, 1:])
        surrounded = around_image.shape[0] > 0 and rows >= height
        if surrounded:
            surround(pixels, place, size, around, fill, known and fills.shape[0] == 1, around_image)
            around_place[0], around_place[1] = 0, (size[1] + 2 * around) * channels
            around_place[2], around_place[3] = channels, 1
            place = around_place
        for y in range(0, height, max(rows, 1)):
            count = min(rows, height - y)
            end = count * width
            if not known:
                for k in range(count):
                    at, to = k * width, (k + 1) * width
                    by_x, by_y = offsets[0, at:to], offsets[1, at:to]
                    sample_coordinates(code, params, table, y + k, size, size_out[n], by_x, by_y)
                by_x, by_y = offsets[0, :end], offsets[1, :end]
                locate_taps(by_x, by_y, around, surrounded, size, place, first[0], first[1], first[2])
                if around == 4:
                    all_weights(by_x, by_y, offsets[2:])
            element, result = first[2, :end], line[: end * channels + 1]
            if surrounded and around == 2 and channels == 3:
                linear_three(around_image, element, offsets[0], offsets[1], place[1], rounding, result)
            elif surrounded:
                sample(around_image, offsets, element, around, place, channels, rounding, result)
            else:
                sample(pixels, offsets, element, around, place, channels, rounding, result)
                left, top, by_x, by_y = first[0, :end], first[1, :end], offsets[0, :end], offsets[1, :end]
                # The last 16 elements of `line` serve as scratch memory for the taps of one pixel.
                taps = line[line.shape[0] - 16 :]
                sample_outside(
                    pixels, left, top, element, by_x, by_y, place, size, around, border, fill, rounding, taps, result
                )
            result = result[: end * channels]
            # Cubic interpolation overshoots, and storing a byte truncates without clipping.
            if around == 4 and rounding != 0:
                for i in range(result.shape[0]):
                    result[i] = min(max(result[i], np.float32(0)), np.float32(255))
            store_rows(result, y, width * channels, channels, out, place_out[n])
