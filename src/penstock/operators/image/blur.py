"""Blurs: each pixel of the result is a weighed sum of its neighbours, along columns and then along rows."""
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
from penstock.operators.image.planes import load, mirrored, store, weigh
from penstock.operators.image.transform import InPlace, Planes, as_planes, from_planes

if TYPE_CHECKING:
    from penstock.operators.image.rows import Memory


@dataclass(frozen=True)
class Blur(InPlace):
    """A Gaussian, cut off at a radius. Beyond its edge an image is mirrored, without its outermost pixels.

    Its term has four numbers: the standard deviation along columns and along rows, and the two radii, in pixels.

    Args:
        layout: of the images.
    """

    layout: str

    def rows(
        self, source: Memory, given: NDArray[np.int64], terms: Sequence[Any], target: Memory, made: NDArray[np.int64]
    ) -> None:
        """All planes in one call."""
        planes = Planes.of(self.layout, source, given, target, made)
        numbers = planes.term(terms[0])
        width, most = int((planes.given[:, 1] * planes.given[:, 2]).max(initial=0)), int(numbers[:, 2:].max(initial=0))
        channels, pixels = int(planes.given[:, 2].max(initial=0)), int(planes.given.prod(axis=1).max(initial=0))
        memory = [np.empty(size, np.float32) for size in (pixels, width + 2 * most * channels, width, 4 * most + 2)]
        blur(
            *(source.values, planes.read, planes.given, numbers, planes.rounding, target.values, planes.write),
            *memory,
        )

    def trace(self, images: Any, given: Any, terms: Sequence[Any], made: Any, shape: tuple[int, ...]) -> Any:
        """A loop over the neighbours for each axis."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        values = as_planes(images, self.layout).astype(np.float32)
        numbers = jnp.asarray(terms[0]).astype(np.float32)
        for axis in range(2):
            extent = given[:, self.layout.index("HW"[axis])]
            values = _blurred(values, axis + 2, extent, numbers[:, axis], numbers[:, 2 + axis])
        return from_planes(values, self.layout, shape)


def _blurred(values: Any, axis: int, extent: Any, sigma: Any, radius: Any) -> Any:
    """Blurred along one axis; sigma and radius have an entry per row, or one for all."""
    import jax  # noqa: PLC0415  # for the device program alone
    import jax.numpy as jnp  # noqa: PLC0415  # likewise

    length = values.shape[axis]
    most = jnp.max(radius).astype(np.int32)
    extent = jnp.broadcast_to(extent, (values.shape[0],))[:, None]

    def along(numbers: Any) -> Any:
        return numbers.reshape(-1, *(numbers.shape[1] if at == axis else 1 for at in range(1, values.ndim)))

    def weigh(k: Any) -> Any:
        off = (k - most).astype(np.float32)
        weight = jnp.exp(off * off / (np.float32(-2) * sigma * sigma))
        return jnp.where(jnp.abs(off) <= radius, weight, 0)

    def add(k: Any, total: Any) -> Any:
        period = jnp.maximum(2 * extent - 2, 1)
        index = (jnp.arange(length, dtype=np.int32)[None, :] + k - most) % period
        index = jnp.minimum(index, period - index) * (extent > 1)
        picked = jnp.take_along_axis(values, along(jnp.clip(index, 0, length - 1)), axis=axis)
        return total + picked * along(weigh(k)[:, None])

    whole = jax.lax.fori_loop(0, 2 * most + 1, lambda k, total: total + weigh(k), jnp.zeros_like(sigma))
    return jax.lax.fori_loop(0, 2 * most + 1, add, jnp.zeros_like(values)) / along(whole[:, None])


@Compiled
def bell(sigma: Any, radius: int, weights: Array) -> None:
    """The weights of a Gaussian, whose sum is 1."""
    total = 0.0
    for k in range(2 * radius + 1):
        total += math.exp(-0.5 * ((k - radius) / sigma) ** 2)
    for k in range(2 * radius + 1):
        weights[k] = np.float32(math.exp(-0.5 * ((k - radius) / sigma) ** 2) / total)


_KINDS = "i8[2] i8[2] f4[2] f4"


@ahead(
    *(f"{a}[1] {_KINDS} {b}[1] i8[2] f4[1] f4[1] f4[1] f4[1]" for a, b in (("u1", "u1"), ("u1", "f4"), ("f4", "f4")))
)
@Compiled
def blur(
    pixels: Array,
    place_in: Array,
    sizes: Array,
    numbers: Array,
    rounding: np.float32,
    out: Array,
    place_out: Array,
    plane: Array,
    line: Array,
    row: Array,
    weights: Array,
) -> None:
    """Planes of images, blurred.

    Args:
        pixels: uint8 or float32.
        place_in: int64 (planes, 4): the first element, and the distances to the next row, column and channel.
        sizes: int64 (planes, 3): height, width, channels.
        numbers: float32 (planes or 1, 4): two standard deviations and two radii.
        rounding: what is added before values are written: 0.5 where they are whole numbers.
        out: uint8 or float32.
        place_out: as `place_in`.
        plane: float32, as many as the largest plane has; overwritten.
        line: float32, for a row with its neighbours; overwritten.
        row: float32, for a row; overwritten.
        weights: float32, for both axes; overwritten.
    """
    for n in range(place_in.shape[0]):
        sigma_y, sigma_x, radius_y, radius_x = numbers[n % numbers.shape[0]]
        r_y, r_x = int(radius_y), int(radius_x)
        height, width, channels = sizes[n, 0], sizes[n, 1], sizes[n, 2]
        by_y, by_x = weights[: 2 * r_y + 1], weights[2 * r_y + 1 : 2 * (r_y + r_x) + 2]
        bell(sigma_y, r_y, by_y)
        bell(sigma_x, r_x, by_x)
        across, edge = width * channels, r_x * channels
        middle, made = line[edge : edge + across], row[:across]
        load(pixels, place_in[n], sizes[n], plane)
        for y in range(height):
            for k in range(2 * r_y + 1):
                above = mirrored(y + k - r_y, height) * across
                weigh(plane[above : above + across], by_y[k], k == 0, middle)
            for x in range(1, r_x + 1):
                left, right = mirrored(-x, width) * channels, mirrored(width - 1 + x, width) * channels
                for c in range(channels):
                    line[edge - x * channels + c] = middle[left + c]
                    line[edge + across + (x - 1) * channels + c] = middle[right + c]
            for k in range(2 * r_x + 1):
                weigh(line[k * channels : k * channels + across], by_x[k], k == 0, made)
            for i in range(across):
                made[i] += rounding
            store(made, y, channels, out, place_out[n])
