"""Grids of squares that are put over images."""
# pyright: basic
# JAX is typed in part only

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.data.source import Array
from penstock.native.compiled import Compiled, ahead
from penstock.operators.image.transform import InPlace, Planes, as_planes, from_planes

if TYPE_CHECKING:
    from penstock.operators.image.memory import Memory


@dataclass(frozen=True)
class Grid(InPlace):
    """Pixels under the squares of a grid become 0.

    Its term has for each row the cosine and sine of the grid's angle, the place (x, y) of its first square, the side of
    its tiles, and that of its squares in parts of this.

    Args:
        layout: of the images.
    """

    layout: str

    def rows(
        self, source: Memory, given: NDArray[np.int64], terms: Sequence[Any], target: Memory, made: NDArray[np.int64]
    ) -> None:
        """All planes in one call, whatever their dtype: the bits of 0 are the same in all of them."""
        planes = Planes.of(self.layout, source, given, target, made)
        values, out = (memory.values.view(f"u{memory.values.dtype.itemsize}") for memory in (source, target))
        cover(values, planes.read, planes.given, planes.term(terms[0]), out, planes.write)

    def trace(self, images: Any, given: Any, terms: Sequence[Any], made: Any, shape: tuple[int, ...]) -> Any:
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


@ahead(*(f"{kind}[1] i8[2] i8[2] f4[2] {kind}[1] i8[2]" for kind in ("u1", "u4")))
@Compiled
def cover(pixels: Array, place_in: Array, size: Array, numbers: Array, out: Array, place_out: Array) -> None:
    """Planes of images, under grids.

    Args:
        pixels: unsigned integers, the bits of any dtype.
        place_in: int64 (planes, 4): the first element, and the distances to the next row, column and channel.
        size: int64 (planes, 3): height, width, channels.
        numbers: float32 (planes or 1, 6): as `Grid` has them.
        out: as `pixels`.
        place_out: as `place_in`.
    """
    for n in range(place_in.shape[0]):
        own, place, to = numbers[n % numbers.shape[0]], place_in[n], place_out[n]
        cos, sin, at_x, at_y, tile, part = own[0], own[1], own[2], own[3], own[4], own[5]
        for row in range(size[n, 0]):
            y = np.float32(row)
            by_sin, by_cos = y * sin, y * cos
            begin, end = place[0] + row * place[1], to[0] + row * to[1]
            for column in range(size[n, 1]):
                x = np.float32(column)
                across, down = (x * cos - by_sin - at_x) / tile, (x * sin + by_cos - at_y) / tile
                covered = across - math.floor(across) < part and down - math.floor(down) < part
                for c in range(size[n, 2]):  # indices are unsigned: for a signed one, numba asks where it counts from
                    value = pixels[np.uint64(begin + c * place[3])]
                    out[np.uint64(end + c * to[3])] = 0 if covered else value
                begin += place[2]
                end += to[2]
