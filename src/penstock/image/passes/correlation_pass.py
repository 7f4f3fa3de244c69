"""Correlation with arbitrary filters: each result pixel is a weighted sum of a rectangle of pixels."""
# pyright: basic
# JAX is typed in part only

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.image.describe.custom_pass import CustomPass, PassImages, as_planes, from_planes
from penstock.image.kernels.border_modes import Border, border_index
from penstock.image.kernels.plane_io import load_row, store_limited, weigh_five
from penstock.image.passes.sampling_coordinates import Affine
from penstock.image.passes.shifted_pixels import read_along
from penstock.image.passes.warp_pass import Interpolation, WarpPass
from penstock.native.compiled import Compiled, precompile
from penstock.numerics.ordered_sums import no_fma

# DALI's names of the border modes.
BORDERS: Mapping[str, Border] = {
    "constant": Border.CONSTANT,
    "clamp": Border.REPLICATE,
    "reflect_101": Border.REFLECT_101,
    "reflect_1001": Border.REFLECT,
    "wrap": Border.WRAP,
}
# Sums per block (at least a row): total and input rows of a block stay in the cache.
_TOGETHER = 4096


@dataclass(frozen=True)
class CorrelationPass(CustomPass):
    """Correlation of images with filters, in float32.

    The terms are the filter, row by row; the row and column of its anchor, the weight at the result pixel; the fill
    value for a constant border; and the row and column of the middle of the filter. Smaller filters have weights of 0
    at the end.

    Args:
        layout: Layout of the images.
        extents: Height and width of the largest filter.
        border: One of `BORDERS`.
        valid: True to compute only pixels for which the whole filter is inside the image; the anchor is then 0.
    """

    layout: str
    extents: tuple[int, int]
    border: str
    valid: bool

    def source_map(self, terms: Sequence[Any]) -> Any:
        """Return the shift to the middle of the filter if it must fit inside the image; otherwise None."""
        if not self.valid:
            return None
        middle = np.asarray(terms[3], np.float32)
        result = np.tile(np.array([1, 0, 0, 0, 1, 0], np.float32), (len(middle), 1))
        result[:, [5, 2]] = middle
        return result

    def nearest_twin(self, layout: str, terms: Sequence[Any], fill: float) -> tuple[CustomPass, Sequence[Any]] | None:
        """Return the shift to the middle of a filter that must fit inside the image; otherwise None."""
        if not self.valid:
            return None
        shift = WarpPass(layout, Affine(), Interpolation.NEAREST, Border.CONSTANT)
        return shift, (self.source_map(terms), np.array([[fill]], np.float32))

    def run_host(self, images: PassImages, terms: Sequence[Any]) -> None:
        """Filter all planes in one call."""
        planes = images.planes(self.layout)
        weights, anchors, fills = map(planes.term, terms[:3])
        across = int(((planes.sizes_out[:, 1] + self.extents[1] - 1) * planes.sizes_out[:, 2]).max(initial=0))
        bytes_in, bytes_out = (memory.dtype == np.uint8 for memory in (planes.pixels, planes.out))
        integer = bytes_in and bytes_out and _sums_fit_int16(weights, fills)
        pixel, total = (np.uint8, np.int16) if integer else (np.float32, np.float32)
        # Integer sums use 16 bits, half the memory of float32, so a vector register holds twice as many.
        sums = np.empty(max(across, _TOGETHER), total)
        lines = np.empty(len(sums) + (self.extents[0] - 1) * across, pixel)
        pass_memory = np.empty(5, np.int64), np.empty(5, total)
        limits = np.array([0, 255] if bytes_out else [-np.inf, np.inf], total)
        correlate(
            *(planes.pixels, planes.read, planes.sizes_in, weights.astype(total), self.extents[1], anchors, fills),
            *(int(BORDERS[self.border]), total(0 if integer else planes.rounding), limits),
            *(planes.out, planes.write, planes.sizes_out, lines, sums, *pass_memory, bytes_in),
        )

    def trace_xla(self, images: Any, shapes: Any, terms: Sequence[Any], out_shapes: Any, shape: tuple[int, ...]) -> Any:
        """Sum over the filter, term by term."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        values = as_planes(images, self.layout).astype(np.float32)
        weights, anchors, fill = (jnp.asarray(term).astype(np.float32) for term in terms[:3])
        rows, columns = (shape[self.layout.index(letter)] for letter in "HW")
        sizes = [shapes[:, self.layout.index(letter)] for letter in "HW"]
        total = jnp.zeros((*values.shape[:2], rows, columns, values.shape[4]), np.float32)
        for k in range(self.extents[0] * self.extents[1]):
            picked, outside = values, jnp.zeros((1, 1, 1, 1, 1), bool)
            for axis, (count, offset) in enumerate(zip((rows, columns), divmod(k, self.extents[1]), strict=True)):
                at = jnp.arange(count, dtype=np.int32)[None, :] + offset - anchors[:, axis, None].astype(np.int32)
                picked, beyond = read_along(picked, axis + 2, at, sizes[axis], BORDERS[self.border])
                outside = outside | beyond
            if self.border == "constant":
                picked = jnp.where(outside, fill.reshape(-1, 1, 1, 1, 1), picked)
            # In the order of the compiled loop and without fused multiply-add, so that both round the same way.
            total = total + no_fma(jnp, picked * weights[:, k].reshape(-1, 1, 1, 1, 1))
        return from_planes(total, self.layout, shape)


def _sums_fit_int16(weights: Array, fills: Array) -> bool:
    """Return True if 16-bit integers give the same sums as floats; they are faster."""
    fits = np.abs(weights).sum(axis=1).max(initial=0) * 255 <= np.iinfo(np.int16).max
    # The bound of the absolute weights also covers partial sums, so no order of additions overflows.
    return bool(fits and (weights == np.rint(weights)).all() and (fills == np.clip(np.rint(fills), 0, 255)).all())


@Compiled
def load_wide(
    pixels: Array, at: Array, size: Array, first: int, before: int, border: int, fill: float, wide: int, lines: Array
) -> None:
    """Load rows of a plane with the pixels beyond its edges.

    Args:
        pixels: The memory.
        at: Offset and strides of the plane.
        size: Height, width and channels.
        first: First row, which may be outside.
        before: Columns to add on the left.
        border: Border mode.
        fill: Fill value for a constant border.
        wide: Number of columns with those beyond the edges.
        lines: Receives the rows, one after the other, with interleaved channels.
    """
    width, channels, left = size[1], size[2], before
    across, inner = wide * channels, width * channels
    for y in range(lines.shape[0] // across):
        line = lines[y * across : (y + 1) * across]
        row = border_index(first + y, size[0], border)
        if row < 0:
            line[:] = fill
            continue
        middle = line[left * channels : left * channels + inner]
        load_row(pixels, at[0] + row * at[1], at, channels, middle)
    for number in range(wide - width):
        x = number if number < left else width + number
        column = border_index(x - left, width, border)
        for y in range(lines.shape[0] // across):
            at, source = y * across + x * channels, y * across + (left + column) * channels
            for c in range(channels):
                lines[at + c] = fill if column < 0 else lines[source + c]


@Compiled
def next_weight(weights: Array, k: int, finite: bool) -> int:
    """Return the index of the first weight from `k` on that contributes, or the number of weights."""
    while k < weights.shape[0] and finite and weights[k] == 0:
        k += 1
    return k


_KINDS = "{}[1] i8[2] i8[2] {}[2] i8 f4[2] f4[2] i8 {} {}[1] {}[1] i8[2] i8[2] {}[1] {}[1] i8[1] {}[1] b1"
_FLOATS = [_KINDS.format(a, *["f4"] * 3, b, *["f4"] * 3) for a, b in (("u1", "u1"), ("u1", "f4"), ("f4", "f4"))]


@precompile(*_FLOATS, _KINDS.format("u1", *["i2"] * 3, "u1", "u1", "i2", "i2"))
@Compiled
def correlate(
    pixels: Array,
    place_in: Array,
    size_in: Array,
    filters: Array,
    columns: int,
    anchors: Array,
    fills: Array,
    border: int,
    rounding: Any,
    limits: Array,
    out: Array,
    place_out: Array,
    size_out: Array,
    memory: Array,
    sums: Array,
    starts: Array,
    own: Array,
    finite: bool,
) -> None:
    """Correlate planes of images with filters, in the dtype of `sums`: float32, or int16 if that is exact.

    Args:
        pixels: uint8 or float32.
        place_in: int64 (planes, 4), offset of the first element, then the strides of rows, columns and channels.
        size_in: int64 (planes, 3), height, width, channels.
        filters: Dtype of `sums`, (planes or 1, rows * columns), the weights.
        columns: Number of columns of the filters.
        anchors: float32 (planes or 1, 2), row and column of the weight at the result pixel.
        fills: float32 (planes or 1, 1), fill value for a constant border.
        border: Border mode.
        rounding: Value to add before storing: 0.5 if floats are stored as integers.
        limits: Dtype of `sums`, (2,), smallest and largest value to store.
        out: uint8 or float32.
        place_out: As `place_in`.
        size_out: As `size_in`.
        memory: float32 or uint8, for the input rows of a block with their margins; overwritten.
        sums: float32 or int16, for one row with its margins or several; overwritten.
        starts: int64 (5,), offsets of the values of one pass; overwritten.
        own: Dtype of `sums`, (5,), their weights; overwritten.
        finite: True if all pixels are finite, so that a weight of 0 contributes nothing.
    """
    for n in range(place_in.shape[0]):
        weights, anchor = filters[n % filters.shape[0]], anchors[n % anchors.shape[0]]
        fill = fills[n % fills.shape[0], 0]
        high, wide, channels = size_out[n, 0], size_out[n, 1], size_out[n, 2]
        more = wide + columns - 1
        across, beyond = more * channels, weights.shape[0] // columns - 1
        together = sums.shape[0] // max(across, 1)
        for first in range(0, high, max(together, 1)):
            count = min(together, high - first)
            lines = memory[: (count + beyond) * across]
            row, column = first - int(anchor[0]), int(anchor[1])
            load_wide(pixels, place_in[n], size_in[n], row, column, border, fill, more, lines)
            # The rows of a block are summed as one run, including the margins between them, which are not stored.
            total = sums[: count * across - (columns - 1) * channels]
            k, begins = next_weight(weights, 0, finite), True
            while begins or k < weights.shape[0]:
                at = 0
                for some in range(starts.shape[0]):  # missing terms get a weight of 0
                    own[some] = 0
                    if k < weights.shape[0] and (finite or some == 0):
                        at, own[some] = k // columns * across + k % columns * channels, weights[k]
                        k = next_weight(weights, k + 1, finite)
                    starts[some] = at
                weigh_five(total, begins, lines, starts, own, finite)
                begins = False
            for y in range(count):
                row = total[y * across : y * across + wide * channels]
                store_limited(row, rounding, limits, first + y, channels, out, place_out[n])
