"""Gaussian blur: a weighted sum of neighbors along one axis after the other."""
# pyright: basic
# JAX is typed in part only

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.image.describe.custom_pass import InPlacePass, PassImages, as_planes, from_planes
from penstock.image.kernels.plane_io import load_plane, mirror_index, multiply_add, store_plane
from penstock.image.passes.separable_pass import run_volumes
from penstock.image.passes.shifted_pixels import weigh_along
from penstock.native.compiled import Compiled, precompile
from penstock.numerics.ordered_sums import no_fma


@dataclass(frozen=True)
class GaussianBlurPass(InPlacePass):
    """Gaussian blur, cut off at a radius. Beyond its edge, an image is mirrored without its edge pixels.

    The term contains the standard deviations along depth (if the layout has it), columns and rows, then the radii, in
    pixels.

    Args:
        layout: Layout of the images.
    """

    layout: str

    def run_host(self, images: PassImages, terms: Sequence[Any]) -> None:
        """Blur all planes in one call."""
        if "D" in self.layout:
            numbers = np.ascontiguousarray(terms[0], np.float32)
            weights = np.empty((len(numbers), 3, 2 * int(numbers[:, 3:].max(initial=0)) + 1), np.float32)
            volume_weights(numbers, weights)
            return run_volumes(images, self.layout, weights[:, None])
        planes = images.planes(self.layout)
        numbers = planes.term(terms[0])
        width = int((planes.sizes_in[:, 1] * planes.sizes_in[:, 2]).max(initial=0))
        most = int(numbers[:, 2:].max(initial=0))
        channels, pixels = int(planes.sizes_in[:, 2].max(initial=0)), int(planes.sizes_in.prod(axis=1).max(initial=0))
        memory = [np.empty(size, np.float32) for size in (pixels, width + 2 * most * channels, width, 4 * most + 2)]
        return blur(
            *(planes.pixels, planes.read, planes.sizes_in, numbers, planes.rounding, planes.out, planes.write),
            *memory,
        )

    def trace_xla(self, images: Any, shapes: Any, terms: Sequence[Any], out_shapes: Any, shape: tuple[int, ...]) -> Any:
        """Blur with a loop over the neighbors along each axis."""
        letters = "DHW" if "D" in self.layout else "HW"
        values = as_planes(images, self.layout, f"{letters}C").astype(np.float32)
        numbers = terms[0].astype(np.float32)
        for axis, letter in enumerate(letters):
            extent = shapes[:, self.layout.index(letter)]
            radius, weigh = _weights(numbers[:, axis], numbers[:, len(letters) + axis])
            values = weigh_along(values, axis + 2, extent, radius, weigh)
        return from_planes(values, self.layout, shape, f"{letters}C")


def _weights(sigma: Any, radius: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the largest radius, and a function from the index of a tap to the weights of the rows.

    Weights that all rows share are computed on the host, because what XLA makes of a constant depends on the devices.
    """
    import jax  # noqa: PLC0415  # for the device program alone
    import jax.numpy as jnp  # noqa: PLC0415  # likewise

    if isinstance(sigma, np.ndarray) and len(sigma) == 1:
        weights = np.empty(2 * int(radius[0]) + 1, np.float32)
        bell.python_function(float(sigma[0]), int(radius[0]), weights)
        table = jnp.asarray(weights)[:, None]
        return int(radius[0]), lambda k: table[k]
    # Rows with a smaller radius get weights of 0 for the outer taps, so one loop serves all rows.
    most = jnp.max(radius).astype(np.int32)

    def raw(k: Any) -> Any:
        off = (k - most).astype(np.float32)
        weight = no_fma(jnp, jnp.exp(no_fma(jnp, off * off / (np.float32(-2) * sigma * sigma))))
        return jnp.where(jnp.abs(off) <= radius, weight, 0)

    total_weight = jax.lax.fori_loop(0, 2 * most + 1, lambda k, total: total + raw(k), jnp.zeros_like(sigma))
    return most, lambda k: raw(k) / total_weight


@Compiled
def bell(sigma: Any, radius: int, weights: Array) -> None:
    """Compute the weights of a Gaussian, normalized to a sum of 1."""
    total = 0.0
    for k in range(2 * radius + 1):
        total += math.exp(-0.5 * ((k - radius) / sigma) ** 2)
    for k in range(2 * radius + 1):
        weights[k] = np.float32(math.exp(-0.5 * ((k - radius) / sigma) ** 2) / total)


_KINDS = "i8[2] i8[2] f4[2] f4"


@precompile(
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
    """Blur planes of images.

    Args:
        pixels: uint8 or float32.
        place_in: int64 (planes, 4), offset of the first element, then the strides of rows, columns and channels.
        sizes: int64 (planes, 3), height, width, channels.
        numbers: float32 (planes or 1, 4), two standard deviations and two radii.
        rounding: Value to add before storing: 0.5 for integers.
        out: uint8 or float32.
        place_out: As `place_in`.
        plane: float32, size of the largest plane; overwritten.
        line: float32, for a row with its neighbors; overwritten.
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
        middle, result = line[edge : edge + across], row[:across]
        # The plane is converted to floats once, because each row is read by 2 * radius + 1 results.
        load_plane(pixels, place_in[n], sizes[n], plane)
        for y in range(height):
            for k in range(2 * r_y + 1):
                above = mirror_index(y + k - r_y, height) * across
                multiply_add(plane[above : above + across], by_y[k], k == 0, middle)
            # The row gets mirrored margins, so the loop over taps needs no test for edges.
            for x in range(1, r_x + 1):
                left, right = mirror_index(-x, width) * channels, mirror_index(width - 1 + x, width) * channels
                for c in range(channels):
                    line[edge - x * channels + c] = middle[left + c]
                    line[edge + across + (x - 1) * channels + c] = middle[right + c]
            for k in range(2 * r_x + 1):
                multiply_add(line[k * channels : k * channels + across], by_x[k], k == 0, result)
            for i in range(across):
                result[i] += rounding
            store_plane(result, y, channels, out, place_out[n])


@precompile("f4[2] f4[3]")
@Compiled
def volume_weights(numbers: Array, weights: Array) -> None:
    """Compute the weights along all axes of volumes.

    Args:
        numbers: float32 (rows, 6), standard deviations, then radii.
        weights: float32 (rows, 3, n), receives the weights, centered, with zeros around them.
    """
    weights[:] = 0
    for row in range(numbers.shape[0]):
        for axis in range(3):
            radius = int(numbers[row, 3 + axis])
            first = weights.shape[2] // 2 - radius
            bell(numbers[row, axis], radius, weights[row, axis, first : first + 2 * radius + 1])
