"""The least or the greatest value of a rectangle of pixels: erosion and dilation."""
# pyright: basic
# JAX is typed in part only

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array
from penstock.image.describe.custom_pass import CustomPass, Planes, as_planes, from_planes
from penstock.image.kernels.plane_io import load_plane, store_plane
from penstock.image.passes.correlation_pass import BORDERS, border_index, border_indices
from penstock.native.compiled import Compiled, precompile

if TYPE_CHECKING:
    from penstock.image.kernels.strided_images import StridedImages


@dataclass(frozen=True)
class MorphologyPass(CustomPass):
    """The extreme of a rectangle around each pixel, of each channel for itself.

    Its term has four numbers: height and width of the rectangle, and the row and the column of it that lie on the
    pixel.

    Args:
        layout: of the images.
        greatest: whether the greatest value is taken; else the least.
        border: one of `BORDERS`; "constant" takes nothing beyond the edge.
    """

    layout: str
    greatest: bool
    border: str

    @property
    def _sign(self) -> np.float32:
        """Both are a maximum: the least value is the greatest of what is negated."""
        return np.float32(1 if self.greatest else -1)

    def run_host(
        self,
        source: StridedImages,
        given: NDArray[np.int64],
        terms: Sequence[Any],
        target: StridedImages,
        made: NDArray[np.int64],
    ) -> None:
        """All planes in one call."""
        planes = Planes.of(self.layout, source, given, target, made)
        numbers = planes.term(terms[0])
        width, channels = (int(planes.given[:, at].max(initial=0)) for at in (1, 2))
        wide = width + int(numbers[:, 1].max(initial=0))
        floats = target.values.dtype != np.uint8
        least = np.float32(-np.inf if floats else 0 if self.greatest else -255)
        sizes = (int(planes.given.prod(axis=1).max(initial=0)), width * channels, wide * channels)
        extremes(
            *(source.values, planes.read, planes.given, numbers, BORDERS.index(self.border), self._sign, least),
            *(target.values, planes.write, *(np.empty(size, np.float32) for size in sizes)),
        )

    def trace_xla(self, images: Any, given: Any, terms: Sequence[Any], made: Any, shape: tuple[int, ...]) -> Any:
        """A loop over the rectangle's extent along each axis."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        values = as_planes(images, self.layout).astype(np.float32) * self._sign
        numbers = jnp.asarray(terms[0]).astype(np.int32)
        for axis in range(2):
            extent = given[:, self.layout.index("HW"[axis])]
            values = self._along(values, axis + 2, extent[:, None], numbers[:, axis], numbers[:, 2 + axis])
        return from_planes(values * self._sign, self.layout, shape)

    def _along(self, values: Any, axis: int, extent: Any, size: Any, anchor: Any) -> Any:
        import jax  # noqa: PLC0415  # for the device program alone
        import jax.numpy as jnp  # noqa: PLC0415  # likewise

        length = values.shape[axis]

        def step(k: Any, greatest: Any) -> Any:
            at = jnp.arange(length, dtype=np.int32)[None, :] + k - anchor[:, None]
            index, beyond = border_indices(self.border, at, extent)
            skipped = (k >= size)[:, None] | (beyond & (self.border == "constant"))
            line = (-1, *(length if at == axis else 1 for at in range(1, values.ndim)))
            picked = jnp.take_along_axis(values, index.reshape(line), axis=axis)
            return jnp.maximum(greatest, jnp.where(skipped.reshape(line), -np.inf, picked))

        return jax.lax.fori_loop(0, jnp.max(size), step, jnp.full_like(values, -np.inf))


@precompile("u1[1] i8[2] i8[2] f4[2] i8 f4 f4 u1[1] i8[2] f4[1] f4[1] f4[1]")
@Compiled
def extremes(
    pixels: Array,
    place_in: Array,
    sizes: Array,
    numbers: Array,
    border: int,
    sign: np.float32,
    least: np.float32,
    out: Array,
    place_out: Array,
    plane: Array,
    row: Array,
    line: Array,
) -> None:
    """Planes of images, each pixel the extreme of a rectangle.

    Args:
        pixels: uint8 or float32.
        place_in: int64 (planes, 4): the first element, and the distances to the next row, column and channel.
        sizes: int64 (planes, 3): height, width, channels.
        numbers: float32 (planes or 1, 4): height, width and place of the rectangle.
        border: a number of `BORDERS`.
        sign: 1 for the greatest value, -1 for the least.
        least: what is less than all values times the sign.
        out: uint8 or float32.
        place_out: as `place_in`.
        plane: float32, as many as the largest plane has; overwritten.
        row: float32, for a row; overwritten.
        line: float32, for a row with its neighbours; overwritten.
    """
    for n in range(place_in.shape[0]):
        tall, wide, first_row, first_column = numbers[n % numbers.shape[0]]
        height, width, channels = sizes[n, 0], sizes[n, 1], sizes[n, 2]
        across = width * channels
        made = row[:across]
        load_plane(pixels, place_in[n], sizes[n], plane)
        for i in range(height * across):
            plane[i] *= sign
        for y in range(height):
            made[:] = least
            for k in range(int(tall)):
                at = border_index(y + k - int(first_row), height, border)
                if at >= 0:
                    values = plane[at * across : (at + 1) * across]
                    for i in range(across):
                        made[i] = max(made[i], values[i])
            for x in range(width + int(wide) - 1):
                at = border_index(x - int(first_column), width, border)
                for c in range(channels):
                    line[x * channels + c] = least if at < 0 else made[at * channels + c]
            made[:] = least
            for k in range(int(wide)):
                values = line[k * channels : k * channels + across]
                for i in range(across):
                    made[i] = max(made[i], values[i])
            for i in range(across):
                made[i] *= sign
            store_plane(made, y, channels, out, place_out[n])
