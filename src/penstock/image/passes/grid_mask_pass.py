"""Grids of squares that are put over images."""
# pyright: basic
# JAX is typed in part only

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array
from penstock.image.describe.custom_pass import InPlacePass, Planes, as_planes, from_planes
from penstock.image.kernels.row_arithmetic import same_numbers
from penstock.native.compiled import Compiled, precompile

if TYPE_CHECKING:
    from penstock.image.kernels.strided_images import StridedImages

_TOGETHER = 1 << 18
"""The grid over this many elements is kept. Where images are not larger, all of a batch may share it."""


@dataclass(frozen=True)
class GridMaskPass(InPlacePass):
    """Pixels under the squares of a grid become 0.

    Its term has for each row the cosine and sine of the grid's angle, the place (x, y) of its first square, the side of
    its tiles, and that of its squares in parts of this.

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
        """All planes in one call, whatever their dtype: the bits of 0 are the same in all of them."""
        planes = Planes.of(self.layout, source, given, target, made)
        values, out = (memory.values.view(f"u{memory.values.dtype.itemsize}") for memory in (source, target))
        height, width, channels = planes.given.max(axis=0, initial=0).tolist()
        shown = np.empty(min(max(_TOGETHER, width * channels), height * width * channels), values.dtype)
        mask_planes(values, planes.read, planes.given, planes.term(terms[0]), out, planes.write, shown)

    def trace_xla(self, images: Any, given: Any, terms: Sequence[Any], made: Any, shape: tuple[int, ...]) -> Any:
        """Chosen by a mask."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        planes = as_planes(images, self.layout)
        cos, sin, at_x, at_y, tile, part = (jnp.asarray(terms[0])[:, k, None, None] for k in range(6))
        y = jnp.arange(planes.shape[2], dtype=np.float32)[None, :, None]
        x = jnp.arange(planes.shape[3], dtype=np.float32)[None, None, :]
        across, down = (x * cos - y * sin - at_x) / tile, (x * sin + y * cos - at_y) / tile
        covered = (across - jnp.floor(across) < part) & (down - jnp.floor(down) < part)
        shown = jnp.where(covered[:, None, :, :, None], jnp.zeros((), planes.dtype), planes)
        return from_planes(shown, self.layout, shape)


@precompile(*(f"{kind}[1] i8[2] i8[2] f4[2] {kind}[1] i8[2] {kind}[1]" for kind in ("u1", "u4")))
@Compiled
def mask_planes(
    pixels: Array, place_in: Array, size: Array, numbers: Array, out: Array, place_out: Array, shown: Array
) -> None:
    """Planes of images, under grids.

    Args:
        pixels: unsigned integers, the bits of any dtype.
        place_in: int64 (planes, 4): the first element, and the distances to the next row, column and channel.
        size: int64 (planes, 3): height, width, channels.
        numbers: float32 (planes or 1, 6): as `GridMaskPass` has them.
        out: as `pixels`.
        place_out: as `place_in`.
        shown: of the same dtype, for at least a row of the largest plane: no bits of what is covered, and all of the
            rest; overwritten.
    """
    for n in range(place_in.shape[0]):
        place, to, height, width, channels = place_in[n], place_out[n], size[n, 0], size[n, 1], size[n, 2]
        across, line = width * channels, place_in[n, 3] == 1 and place_out[n, 3] == 1
        line = line and place_in[n, 2] == channels and place_out[n, 2] == channels
        rows = shown.shape[0] // max(across, 1)
        known = n > 0 and numbers.shape[0] == 1 and rows >= height and same_numbers(size[n], size[n - 1])
        for row in range(height):
            begin, end, first = place[0] + row * place[1], to[0] + row * to[1], row % rows * across
            own = shown[first : first + across]
            if not known:
                grid_row(numbers[n % numbers.shape[0]], row, channels, own)
            if line:
                values, made = pixels[begin : begin + across], out[end : end + across]
                for i in range(across):
                    made[i] = values[i] & own[i]
                continue
            for x in range(width):
                for c in range(channels):
                    value = pixels[begin + x * place[2] + c * place[3]]
                    out[end + x * to[2] + c * to[3]] = value & own[x * channels + c]


@Compiled
def grid_row(numbers: Array, row: int, channels: int, shown: Array) -> None:
    """Which elements of a row of pixels a grid leaves: all bits of these, and none of others."""
    cos, sin, at_x, at_y, tile, part = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]
    y = np.float32(row)
    by_sin, by_cos = y * sin, y * cos
    width = shown.shape[0] // channels
    for column in range(width):
        x = np.float32(column)
        across, down = (x * cos - by_sin - at_x) / tile, (x * sin + by_cos - at_y) / tile
        covered = (across - np.floor(across) < part) & (down - np.floor(down) < part)
        shown[column] = 0 if covered else -1
    for column in range(width - 1, 0 if channels > 1 else width, -1):
        for c in range(channels):
            shown[column * channels + c] = shown[column]
    for c in range(channels):
        shown[c] = shown[0]
