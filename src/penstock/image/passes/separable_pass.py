"""Sums of separable filters, each with weights along columns, along rows and, for volumes, along depth."""
# pyright: basic
# JAX is typed in part only

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.image.describe.custom_pass import CustomPass, PassImages, Planes, as_planes, from_planes
from penstock.image.kernels.plane_io import (
    load_plane,
    load_volume,
    mirror_index,
    multiply_add,
    store_plane,
    store_volume,
)
from penstock.image.passes.shifted_pixels import weigh_along
from penstock.native.compiled import Compiled, precompile


@dataclass(frozen=True)
class SeparablePass(CustomPass):
    """Sum of separable filters, in float32. Beyond its edge, an image is mirrored without its edge pixels.

    The term contains all weights: for each filter those along depth (if the layout has it), along columns and along
    rows.

    Args:
        layout: Layout of the images.
        count: Number of filters.
        length: Weights per axis, an odd number; the middle one is that of the pixel itself.
    """

    layout: str
    count: int
    length: int

    def run_host(self, images: PassImages, terms: Sequence[Any]) -> None:
        """Filter all planes in one call."""
        if "D" in self.layout:
            return run_volumes(images, self.layout, np.reshape(terms[0], (-1, self.count, 3, self.length)))
        planes = images.planes(self.layout)
        weights = planes.term(terms[0]).reshape(-1, self.count, 2, self.length)
        width, channels = (int(planes.sizes_in[:, at].max(initial=0)) for at in (1, 2))
        sizes = (int(planes.sizes_in.prod(axis=1).max(initial=0)), (width + self.length) * channels, width * channels)
        return add_separable(
            *(planes.pixels, planes.read, planes.sizes_in, weights, planes.rounding, _limits(planes)),
            *(planes.out, planes.write, *(np.empty(size, np.float32) for size in sizes)),
        )

    def trace_xla(self, images: Any, shapes: Any, terms: Sequence[Any], out_shapes: Any, shape: tuple[int, ...]) -> Any:
        """Loop over the weights along each axis."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        letters = "DHW" if "D" in self.layout else "HW"
        pixels = as_planes(images, self.layout, f"{letters}C").astype(np.float32)
        weights = jnp.asarray(terms[0]).astype(np.float32).reshape(-1, self.count, len(letters), self.length)
        total = jnp.zeros_like(pixels)
        for number in range(self.count):
            values = pixels
            for axis, letter in enumerate(letters):
                extent = shapes[:, self.layout.index(letter)]
                taps = weights[:, number, axis]
                values = weigh_along(values, axis + 2, extent, self.length // 2, partial(jnp.take, taps, axis=1))
            total = total + values
        return from_planes(total, self.layout, shape, f"{letters}C")


def run_volumes(images: PassImages, layout: str, weights: Any) -> None:
    """Filter volumes on the host.

    Args:
        images: Volumes, and memory for the results.
        layout: Layout of the volumes, with D, H and W.
        weights: float32 (rows or 1, filters, 3, weights), along depth, columns and rows.
    """
    planes = images.planes(layout)
    depths = images.shapes[planes.row, layout.index("D")]
    size = int((planes.sizes_in.prod(axis=1) * depths).max(initial=0))
    filter_volumes(
        *(planes.pixels, planes.read, planes.sizes_in, depths, planes.term(weights), planes.rounding),
        *(_limits(planes), planes.out, planes.write, np.empty((4, size), np.float32)),
    )


def _limits(planes: Planes) -> Array:
    """Return the smallest and the largest value that the results hold."""
    return np.array([0, 255] if planes.out.dtype == np.uint8 else [-np.inf, np.inf], np.float32)


@precompile(
    *(
        f"{a}[1] i8[2] i8[2] f4[4] f4 f4[1] {b}[1] i8[2] f4[1] f4[1] f4[1]"
        for a, b in (("u1", "u1"), ("u1", "f4"), ("f4", "f4"))
    )
)
@Compiled
def add_separable(
    pixels: Array,
    place_in: Array,
    sizes: Array,
    filters: Array,
    rounding: np.float32,
    limits: Array,
    out: Array,
    place_out: Array,
    plane: Array,
    line: Array,
    row: Array,
) -> None:
    """Filter planes of images.

    Args:
        pixels: uint8 or float32.
        place_in: int64 (planes, 4), offset of the first element, then the strides of rows, columns and channels.
        sizes: int64 (planes, 3), height, width, channels.
        filters: float32 (planes or 1, filters, 2, weights).
        rounding: Value to add before storing: 0.5 for integers.
        limits: float32 (2,), smallest and largest value to store.
        out: uint8 or float32.
        place_out: As `place_in`.
        plane: float32, size of the largest plane; overwritten.
        line: float32, for a row with its neighbors; overwritten.
        row: float32, for a row; overwritten.
    """
    count = filters.shape[3]
    radius = count // 2
    for n in range(place_in.shape[0]):
        height, width, channels = sizes[n, 0], sizes[n, 1], sizes[n, 2]
        across, edge = width * channels, radius * channels
        middle, result = line[edge : edge + across], row[:across]
        load_plane(pixels, place_in[n], sizes[n], plane)
        for y in range(height):
            result[:] = rounding
            for number in range(filters.shape[1]):
                weights = filters[n % filters.shape[0], number]
                middle[:] = 0
                for k in range(count):
                    weight = weights[0, k]
                    if weight != 0:
                        above = mirror_index(y + k - radius, height) * across
                        multiply_add(plane[above : above + across], weight, False, middle)
                # Mirrored margins, so that the loop over taps needs no test for edges.
                for x in range(1, radius + 1):
                    left, right = mirror_index(-x, width) * channels, mirror_index(width - 1 + x, width) * channels
                    for c in range(channels):
                        line[edge - x * channels + c] = middle[left + c]
                        line[edge + across + (x - 1) * channels + c] = middle[right + c]
                for k in range(count):
                    weight = weights[1, k]
                    if weight != 0:
                        multiply_add(line[k * channels : k * channels + across], weight, False, result)
            for i in range(across):
                result[i] = min(max(result[i], limits[0]), limits[1])
            store_plane(result, y, channels, out, place_out[n])


@Compiled
def filter_along(values: Array, outer: int, count: int, inner: int, weights: Array, out: Array) -> None:
    """Filter one axis of an array of floats.

    Args:
        values: float32, `outer` * `count` * `inner` elements.
        outer: Product of the extents before the axis.
        count: Extent of the axis.
        inner: Product of the extents after the axis.
        weights: float32, an odd number of weights.
        out: float32, same size as `values`.
    """
    radius = weights.shape[0] // 2
    for line in range(outer):
        for entry in range(count):
            to = (line * count + entry) * inner
            total = out[to : to + inner]
            total[:] = 0
            for k in range(weights.shape[0]):
                if weights[k] != 0:
                    at = (line * count + mirror_index(entry + k - radius, count)) * inner
                    multiply_add(values[at : at + inner], weights[k], False, total)


@precompile(
    *(
        f"{a}[1] i8[2] i8[2] i8[1] f4[4] f4 f4[1] {b}[1] i8[2] f4[2]"
        for a, b in (("u1", "u1"), ("u1", "f4"), ("f4", "f4"))
    )
)
@Compiled
def filter_volumes(
    pixels: Array,
    place_in: Array,
    sizes: Array,
    depths: Array,
    filters: Array,
    rounding: np.float32,
    limits: Array,
    out: Array,
    place_out: Array,
    memory: Array,
) -> None:
    """Filter volumes, whose planes follow each other.

    Args:
        pixels: uint8 or float32.
        place_in: int64 (planes, 4), offset of the first element, then the strides of rows, columns and channels.
        sizes: int64 (planes, 3), height, width, channels.
        depths: int64 (planes,), number of planes of the plane's volume.
        filters: float32 (planes or 1, filters, 3, weights), along depth, columns and rows.
        rounding: Value to add before storing: 0.5 for integers.
        limits: float32 (2,), smallest and largest value to store.
        out: uint8 or float32.
        place_out: As `place_in`.
        memory: float32 (4, elements), for the largest volume; overwritten.
    """
    first = 0
    while first < place_in.shape[0]:
        depth, height, width, channels = depths[first], sizes[first, 0], sizes[first, 1], sizes[first, 2]
        across = width * channels
        plane = height * across
        last, elements = first + depth, depth * plane
        volume, one = memory[0, :elements], memory[1, :elements]
        other, total = memory[2, :elements], memory[3, :elements]
        load_volume(pixels, place_in[first:last], sizes[first:last], volume)
        total[:] = rounding
        for number in range(filters.shape[1]):
            weights = filters[first % filters.shape[0], number]
            # The volume itself is kept for the next filter, so three more buffers are needed.
            filter_along(volume, 1, depth, plane, weights[0], one)
            filter_along(one, depth, height, across, weights[1], other)
            filter_along(other, depth * height, width, channels, weights[2], one)
            for i in range(elements):
                total[i] += one[i]
        for i in range(elements):
            total[i] = min(max(total[i], limits[0]), limits[1])
        store_volume(total, sizes[first:last], out, place_out[first:last])
        first = last
