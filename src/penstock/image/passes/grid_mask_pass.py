"""Grid masks: images covered with squares."""
# pyright: basic
# JAX is typed in part only

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.image.describe.custom_pass import InPlacePass, PassImages, as_planes, from_planes
from penstock.image.kernels.row_arithmetic import same_numbers
from penstock.native.compiled import Compiled, precompile

# Elements of the mask that are kept: images up to this size can share one mask over the batch.
_TOGETHER = 1 << 18


@dataclass(frozen=True)
class GridMaskPass(InPlacePass):
    """Mask that sets the pixels under the squares of a grid to 0.

    The term contains, for each row, the cosine and sine of the grid's angle, the position (x, y) of its first square,
    the side of its tiles, and the side of its squares relative to the tiles'.

    Args:
        layout: Layout of the images.
    """

    layout: str

    def run_host(self, images: PassImages, terms: Sequence[Any]) -> None:
        """Mask all planes in one call, in any dtype: the bits of 0 are the same in all dtypes."""
        planes = images.planes(self.layout)
        values, out = (memory.view(f"u{memory.dtype.itemsize}") for memory in (planes.pixels, planes.out))
        height, width, channels = planes.sizes_in.max(axis=0, initial=0).tolist()
        mask = np.empty(min(max(_TOGETHER, width * channels), height * width * channels), values.dtype)
        mask_planes(values, planes.read, planes.sizes_in, planes.term(terms[0]), out, planes.write, mask)

    def trace_xla(self, images: Any, shapes: Any, terms: Sequence[Any], out_shapes: Any, shape: tuple[int, ...]) -> Any:
        """Select by a mask."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        planes = as_planes(images, self.layout)
        cos, sin, at_x, at_y, tile, ratio = (jnp.asarray(terms[0])[:, k, None, None] for k in range(6))
        y = jnp.arange(planes.shape[2], dtype=np.float32)[None, :, None]
        x = jnp.arange(planes.shape[3], dtype=np.float32)[None, None, :]
        across, down = (x * cos - y * sin - at_x) / tile, (x * sin + y * cos - at_y) / tile
        covered = (across - jnp.floor(across) < ratio) & (down - jnp.floor(down) < ratio)
        visible = jnp.where(covered[:, None, :, :, None], jnp.zeros((), planes.dtype), planes)
        return from_planes(visible, self.layout, shape)


@precompile(*(f"{kind}[1] i8[2] i8[2] f4[2] {kind}[1] i8[2] {kind}[1]" for kind in ("u1", "u4")))
@Compiled
def mask_planes(
    pixels: Array, place_in: Array, size: Array, numbers: Array, out: Array, place_out: Array, mask: Array
) -> None:
    """Apply grid masks to planes of images.

    Args:
        pixels: Unsigned integers that hold the bits of any dtype.
        place_in: int64 (planes, 4), offset of the first element, then the strides of rows, columns and channels.
        size: int64 (planes, 3), height, width, channels.
        numbers: float32 (planes or 1, 6), as in `GridMaskPass`.
        out: Same dtype as `pixels`.
        place_out: As `place_in`.
        mask: Same dtype, for at least a row of the largest plane: all bits set where pixels are visible; overwritten.
    """
    for n in range(place_in.shape[0]):
        place, to, height, width, channels = place_in[n], place_out[n], size[n, 0], size[n, 1], size[n, 2]
        across, line = width * channels, place_in[n, 3] == 1 and place_out[n, 3] == 1
        line = line and place_in[n, 2] == channels and place_out[n, 2] == channels
        rows = mask.shape[0] // max(across, 1)
        known = n > 0 and numbers.shape[0] == 1 and rows >= height and same_numbers(size[n], size[n - 1])
        for row in range(height):
            begin, end, first = place[0] + row * place[1], to[0] + row * to[1], row % rows * across
            row_mask = mask[first : first + across]
            # Rows of the mask are reused if the planes before had the same size and grid, and all rows fit the memory.
            if not known:
                grid_row(numbers[n % numbers.shape[0]], row, channels, row_mask)
            if line:
                values, result = pixels[begin : begin + across], out[end : end + across]
                for i in range(across):
                    result[i] = values[i] & row_mask[i]
                continue
            for x in range(width):
                for c in range(channels):
                    value = pixels[begin + x * place[2] + c * place[3]]
                    out[end + x * to[2] + c * to[3]] = value & row_mask[x * channels + c]


@Compiled
def grid_row(numbers: Array, row: int, channels: int, mask: Array) -> None:
    """Compute one row of the mask: all bits set for visible elements, none for covered ones."""
    cos, sin, at_x, at_y, tile, ratio = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]
    y = np.float32(row)
    by_sin, by_cos = y * sin, y * cos
    width = mask.shape[0] // channels
    for column in range(width):
        x = np.float32(column)
        across, down = (x * cos - by_sin - at_x) / tile, (x * sin + by_cos - at_y) / tile
        covered = (across - np.floor(across) < ratio) & (down - np.floor(down) < ratio)
        mask[column] = 0 if covered else -1
    # From the right, because the row is expanded in place from one element per pixel to one per channel.
    for column in range(width - 1, 0 if channels > 1 else width, -1):
        for c in range(channels):
            mask[column * channels + c] = mask[column]
    for c in range(channels):
        mask[c] = mask[0]
