"""Affine warps of volumes."""
# pyright: basic
# JAX is typed in part only

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.image.describe.custom_pass import CustomPass, PassImages, as_planes, from_planes
from penstock.image.kernels.border_modes import Border
from penstock.image.passes.sampling_coordinates import RUN_LENGTH, accumulate_runs
from penstock.native.compiled import Compiled, precompile
from penstock.numerics.ordered_sums import no_fma


@dataclass(frozen=True)
class WarpVolumePass(CustomPass):
    """Affine warp of a volume.

    The terms are the matrix from the result to the volume, three rows of four numbers for x, y and z; and the fill
    value, one or one per channel. The corner of the first voxel is (0, 0, 0).

    Args:
        layout: Layout of the volumes, with D, H and W.
        nearest: True for nearest-neighbor interpolation, False for trilinear.
        border: Border mode: CONSTANT or REPLICATE.
    """

    layout: str
    nearest: bool
    border: Border

    def run_host(self, images: PassImages, terms: Sequence[Any]) -> None:
        """Warp all volumes in one call."""
        deep = self.layout.index("D")
        # `Planes` describes the first plane of each volume; depth and its stride are inserted below.
        first = [sizes.copy() for sizes in (images.shapes, images.out_shapes)]
        for sizes in first:
            sizes[:, deep] = 1
        planes = PassImages(images.source, first[0], images.target, first[1]).planes(self.layout)
        places = [
            np.insert(place, 1, memory.strides[planes.row, deep], axis=1)
            for place, memory in ((planes.read, images.source), (planes.write, images.target))
        ]
        extents = [
            np.insert(size, 0, sizes[planes.row, deep], axis=1)
            for size, sizes in ((planes.sizes_in, images.shapes), (planes.sizes_out, images.out_shapes))
        ]
        warp_volumes(
            *(planes.pixels, places[0], extents[0], planes.term(terms[0]), planes.term(terms[1]), self.nearest),
            *(self.border == Border.CONSTANT, planes.rounding, planes.out, places[1], extents[1]),
        )

    def trace_xla(self, images: Any, shapes: Any, terms: Sequence[Any], out_shapes: Any, shape: tuple[int, ...]) -> Any:
        """Gather from the flat voxels of each volume."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        volumes = as_planes(images, self.layout, "DHWC")
        rows, _, *extents, channels = volumes.shape
        flat = volumes.reshape(rows, -1, math.prod(extents), channels)
        sizes = [shapes[:, self.layout.index(letter)].reshape(-1, 1, 1, 1) for letter in "DHW"]
        shown = [shape[self.layout.index(letter)] for letter in "DHW"]
        fill = jnp.asarray(terms[1]).astype(np.float32)[:, None, None, None, None, :]
        z, y = (jnp.arange(count, dtype=np.float32) + np.float32(0.5) for count in shown[:2])
        z, y = z[None, :, None, None], y[None, None, :, None]
        matrix = jnp.asarray(terms[0]).reshape(-1, 3, 4, 1, 1, 1)
        rules = [matrix[:, k] for k in (2, 1, 0)]
        # Coordinates far outside must not overflow int32; half a voxel converts corners to centers.
        limit, back = np.float32(1 << 24), np.float32(0 if self.nearest else 0.5)
        half = np.float32(0.5)
        starts = [(m[:, 0] * half + m[:, 3]) + no_fma(jnp, m[:, 1] * y) + no_fma(jnp, m[:, 2] * z) for m in rules]
        at = accumulate_runs(starts, [m[:, 0] for m in rules], shown[2])
        at = [jnp.clip(coordinate - back, -limit, limit) for coordinate in at]
        low = [jnp.floor(coordinate) for coordinate in at]
        by = [(coordinate - floor)[:, None, ..., None] for coordinate, floor in zip(at, low, strict=True)]
        first = [coordinate.astype(np.int32) for coordinate in low]

        def look_up(*offsets: int) -> Any:
            index: Any = 0
            inside: Any = True
            for coordinate, offset, size, extent in zip(first, offsets, sizes, extents, strict=True):
                inside = inside & (coordinate + offset >= 0) & (coordinate + offset < size)
                # Clipping keeps the gather in bounds; values outside are replaced below.
                index = index * extent + jnp.clip(coordinate + offset, 0, size - 1)
            index = jnp.broadcast_to(index, (rows, *shown)).reshape(rows, 1, -1, 1)
            voxels = jnp.take_along_axis(flat, index, axis=2).astype(np.float32)
            voxels = voxels.reshape(rows, -1, *shown, channels)
            if self.border is not Border.CONSTANT:
                return voxels
            return jnp.where(jnp.broadcast_to(inside, (rows, *shown))[:, None, ..., None], voxels, fill)

        def between(axis: int, *offsets: int) -> Any:
            if axis == 3:
                return look_up(*offsets)
            low, high = (between(axis + 1, *offsets, offset) for offset in range(2))
            return low + by[axis] * (high - low)

        return from_planes(look_up(0, 0, 0) if self.nearest else between(0), self.layout, shape, "DHWC")


@Compiled
def voxel(
    pixels: Array, start: int, place: Array, size: Array, z: int, y: int, x: int, constant: bool, value: Any
) -> Any:
    """Read one channel of a voxel that may be outside.

    Args:
        pixels: The memory.
        start: Offset of the channel's first element.
        place: Offset and strides of the volume.
        size: Depth, height and width.
        z: Plane index.
        y: Row index.
        x: Column index.
        constant: True for a constant border, False to repeat the edge.
        value: Fill value for a constant border.
    """
    if z < 0 or y < 0 or x < 0 or z >= size[0] or y >= size[1] or x >= size[2]:
        if constant or size[0] * size[1] * size[2] == 0:
            return value
        z, y, x = min(max(z, 0), size[0] - 1), min(max(y, 0), size[1] - 1), min(max(x, 0), size[2] - 1)
    return np.float32(pixels[start + z * place[1] + y * place[2] + x * place[3]])


_KINDS = "i8[2] i8[2] f4[2] f4[2] b1 b1 f4"


@precompile(*(f"{a}[1] {_KINDS} {b}[1] i8[2] i8[2]" for a, b in (("u1", "u1"), ("u1", "f4"), ("f4", "f4"))))
@Compiled
def warp_volumes(
    pixels: Array,
    place_in: Array,
    size_in: Array,
    matrices: Array,
    fills: Array,
    nearest: bool,
    constant: bool,
    rounding: np.float32,
    out: Array,
    place_out: Array,
    size_out: Array,
) -> None:
    """Warp volumes.

    Args:
        pixels: uint8 or float32.
        place_in: int64 (volumes, 5), offset of the first element, then the strides of planes, rows, columns and
            channels.
        size_in: int64 (volumes, 4), depth, height, width, channels.
        matrices: float32 (volumes or 1, 12), matrices from the result to the volume.
        fills: float32 (volumes or 1, channels or 1), fill values.
        nearest: True for nearest-neighbor interpolation, False for trilinear.
        constant: True for a constant border, False to repeat the edge.
        rounding: Value to add before storing: 0.5 for integers.
        out: uint8 or float32.
        place_out: As `place_in`.
        size_out: As `size_in`.
    """
    half, step, limit = np.float32(0.5), np.float32(RUN_LENGTH), np.float32(1 << 24)
    back = np.float32(0) if nearest else half
    for n in range(place_in.shape[0]):
        m, fill, place, size = matrices[n % matrices.shape[0]], fills[n % fills.shape[0]], place_in[n], size_in[n]
        for line in range(size_out[n, 0] * size_out[n, 1]):
            plane, row = line // size_out[n, 1], line % size_out[n, 1]
            y, z = np.float32(row) + half, np.float32(plane) + half
            x_next = (m[0] * half + m[3]) + m[1] * y + m[2] * z
            y_next = (m[4] * half + m[7]) + m[5] * y + m[6] * z
            z_next = (m[8] * half + m[11]) + m[9] * y + m[10] * z
            x_here, y_here, z_here = x_next, y_next, z_next
            to = place_out[n, 0] + plane * place_out[n, 1] + row * place_out[n, 2]
            for column in range(size_out[n, 2]):
                # A new run; the other coordinates are accumulated from the one to their left.
                if column % RUN_LENGTH == 0:
                    x_here, y_here, z_here = x_next, y_next, z_next
                    x_next, y_next, z_next = x_next + m[0] * step, y_next + m[4] * step, z_next + m[8] * step
                at_x = min(max(x_here - back, -limit), limit)
                at_y = min(max(y_here - back, -limit), limit)
                at_z = min(max(z_here - back, -limit), limit)
                x_here, y_here, z_here = x_here + m[0], y_here + m[4], z_here + m[8]
                left, top, front = math.floor(at_x), math.floor(at_y), math.floor(at_z)
                by_x, by_y, by_z = at_x - np.float32(left), at_y - np.float32(top), at_z - np.float32(front)
                for c in range(size[3]):
                    start, value = place[0] + c * place[4], fill[c % fill.shape[0]]
                    result = np.float32(0)
                    if nearest:
                        result = voxel(pixels, start, place, size, front, top, left, constant, value)
                    else:
                        nearer = np.float32(0)
                        for k in range(2):
                            a = voxel(pixels, start, place, size, front + k, top, left, constant, value)
                            b = voxel(pixels, start, place, size, front + k, top, left + 1, constant, value)
                            d = voxel(pixels, start, place, size, front + k, top + 1, left, constant, value)
                            e = voxel(pixels, start, place, size, front + k, top + 1, left + 1, constant, value)
                            upper, lower = a + by_x * (b - a), d + by_x * (e - d)
                            result = upper + by_y * (lower - upper)
                            if k == 0:
                                nearer = result
                        result = nearer + by_z * (result - nearer)
                    out[to + c * place_out[n, 4]] = result + rounding
                to += place_out[n, 3]
