"""Erosion and dilation: the minimum or maximum of a rectangle of pixels."""
# pyright: basic
# JAX is typed in part only

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.image.describe.custom_pass import CustomPass, PassImages, as_planes, from_planes
from penstock.image.kernels.border_modes import border_index
from penstock.image.kernels.plane_io import load_plane, store_plane
from penstock.image.passes.correlation_pass import BORDERS
from penstock.image.passes.shifted_pixels import read_along
from penstock.native.compiled import Compiled, precompile


@dataclass(frozen=True)
class MorphologyPass(CustomPass):
    """Minimum or maximum of a rectangle around each pixel, for each channel separately.

    The term contains four numbers: height and width of the rectangle, and the row and column of its anchor, the
    position of the pixel itself.

    Args:
        layout: Layout of the images.
        greatest: True for the maximum, False for the minimum.
        border: One of `BORDERS`; "constant" ignores pixels beyond the edge.
    """

    layout: str
    greatest: bool
    border: str

    @property
    def _sign(self) -> np.float32:
        """Sign with which values are compared: the minimum is the negated maximum of negated values."""
        return np.float32(1 if self.greatest else -1)

    def run_host(self, images: PassImages, terms: Sequence[Any]) -> None:
        """Filter all planes in one call."""
        planes = images.planes(self.layout)
        numbers = planes.term(terms[0])
        width, channels = (int(planes.sizes_in[:, at].max(initial=0)) for at in (1, 2))
        wide = width + int(numbers[:, 1].max(initial=0))
        floats = planes.out.dtype != np.uint8
        # Bytes are loaded as floats, so 0 and -255 are lower bounds of the signed values; the bound must be finite
        # because it may be stored as a byte.
        least = np.float32(-np.inf if floats else 0 if self.greatest else -255)
        sizes = (int(planes.sizes_in.prod(axis=1).max(initial=0)), width * channels, wide * channels)
        extremes(
            *(planes.pixels, planes.read, planes.sizes_in, numbers, int(BORDERS[self.border]), self._sign, least),
            *(planes.out, planes.write, *(np.empty(size, np.float32) for size in sizes)),
        )

    def trace_xla(self, images: Any, shapes: Any, terms: Sequence[Any], out_shapes: Any, shape: tuple[int, ...]) -> Any:
        """Loop over the rectangle's extent along each axis."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        values = as_planes(images, self.layout).astype(np.float32) * self._sign
        numbers = jnp.asarray(terms[0]).astype(np.int32)
        for axis in range(2):
            extent = shapes[:, self.layout.index("HW"[axis])]
            values = self._along(values, axis + 2, extent, numbers[:, axis], numbers[:, 2 + axis])
        return from_planes(values * self._sign, self.layout, shape)

    def _along(self, values: Any, axis: int, extent: Any, size: Any, anchor: Any) -> Any:
        import jax  # noqa: PLC0415  # for the device program alone
        import jax.numpy as jnp  # noqa: PLC0415  # likewise

        def step(k: Any, greatest: Any) -> Any:
            at = jnp.arange(values.shape[axis], dtype=np.int32)[None, :] + k - anchor[:, None]
            picked, beyond = read_along(values, axis, at, extent, BORDERS[self.border])
            # Rows with a smaller rectangle skip the last iterations.
            skipped = (k >= size).reshape(-1, 1, 1, 1, 1) | (beyond & (self.border == "constant"))
            return jnp.maximum(greatest, jnp.where(skipped, -np.inf, picked))

        return jax.lax.fori_loop(0, jnp.max(size), step, jnp.full_like(values, -np.inf))


@precompile(*(f"{kind}[1] i8[2] i8[2] f4[2] i8 f4 f4 {kind}[1] i8[2] f4[1] f4[1] f4[1]" for kind in ("u1", "f4")))
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
    """Compute the minimum or maximum of a rectangle for each pixel of planes.

    Args:
        pixels: uint8 or float32.
        place_in: int64 (planes, 4), offset of the first element, then the strides of rows, columns and channels.
        sizes: int64 (planes, 3), height, width, channels.
        numbers: float32 (planes or 1, 4), height, width and anchor of the rectangle.
        border: Border mode.
        sign: 1 for the maximum, -1 for the minimum.
        least: Lower bound of all values times the sign.
        out: uint8 or float32.
        place_out: As `place_in`.
        plane: float32, size of the largest plane; overwritten.
        row: float32, for a row; overwritten.
        line: float32, for a row with its neighbors; overwritten.
    """
    for n in range(place_in.shape[0]):
        tall, wide, first_row, first_column = numbers[n % numbers.shape[0]]
        height, width, channels = sizes[n, 0], sizes[n, 1], sizes[n, 2]
        across = width * channels
        result = row[:across]
        load_plane(pixels, place_in[n], sizes[n], plane)
        for i in range(height * across):
            plane[i] *= sign
        for y in range(height):
            result[:] = least
            # The extreme of a rectangle is separable: first over rows, then over columns of the result.
            for k in range(int(tall)):
                at = border_index(y + k - int(first_row), height, border)
                if at >= 0:
                    values = plane[at * across : (at + 1) * across]
                    for i in range(across):
                        result[i] = max(result[i], values[i])
            for x in range(width + int(wide) - 1):
                at = border_index(x - int(first_column), width, border)
                for c in range(channels):
                    line[x * channels + c] = least if at < 0 else result[at * channels + c]
            result[:] = least
            for k in range(int(wide)):
                values = line[k * channels : k * channels + across]
                for i in range(across):
                    result[i] = max(result[i], values[i])
            for i in range(across):
                result[i] *= sign
            store_plane(result, y, channels, out, place_out[n])
