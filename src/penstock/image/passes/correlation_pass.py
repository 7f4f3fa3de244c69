"""Filters with any weights: each pixel of the result is a weighed sum of a rectangle of pixels."""
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
from penstock.image.kernels.border_modes import Border
from penstock.image.kernels.plane_io import load_row, mirror_index, store_limited, weigh_five
from penstock.image.passes.sampling_coordinates import Affine
from penstock.image.passes.warp_pass import Interpolation, WarpPass
from penstock.native.compiled import Compiled, precompile
from penstock.numerics.ordered_sums import no_fma

if TYPE_CHECKING:
    from penstock.image.kernels.strided_images import StridedImages

BORDERS = ("constant", "clamp", "reflect_101", "reflect_1001", "wrap")
"""What is beyond the edge of an image; compiled loops know these by number."""
_TOGETHER = 4096
"""So many sums are computed together."""
_CONSTANT, _CLAMP, _REFLECT_101, _REFLECT_1001, _WRAP = range(5)


@dataclass(frozen=True)
class CorrelationPass(CustomPass):
    """The correlation of images with filters, in float32.

    Its terms are the filter, row by row, the two numbers of the filter's pixel that lies on the pixel of the result,
    row first, and the value of what lies outside where the border is constant.

    Args:
        layout: of the images.
        extents: height and width of the filter.
        border: one of `BORDERS`.
        valid: whether only those pixels are computed for which all of the filter lies inside; the anchor is 0 then.
    """

    layout: str
    extents: tuple[int, int]
    border: str
    valid: bool

    def source_map(self, terms: Sequence[Any]) -> Any:
        """What is seen by the middle of a filter that has to lie inside; else the same place."""
        del terms
        by_y, by_x = ((extent - 1) / 2 for extent in self.extents)
        return np.array([[1, 0, by_x, 0, 1, by_y]], np.float32) if self.valid else None

    def nearest_twin(self, layout: str, terms: Sequence[Any], fill: float) -> tuple[CustomPass, Sequence[Any]] | None:
        """What its middle sees of a filter that has to lie inside; else masks stay as they are."""
        if not self.valid:
            return None
        still = WarpPass(layout, Affine(), Interpolation.NEAREST, Border.CONSTANT)
        return still, (self.source_map(terms), np.array([[fill]], np.float32))

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
        weights, anchors, fills = map(planes.term, terms)
        across = int(((planes.made[:, 1] + self.extents[1] - 1) * planes.made[:, 2]).max(initial=0))
        bytes_in, bytes_out = (memory.values.dtype == np.uint8 for memory in (source, target))
        whole = bytes_in and bytes_out and _whole(weights, fills)
        pixel, total = (np.uint8, np.int16) if whole else (np.float32, np.float32)
        sums = np.empty(max(across, _TOGETHER), total)
        lines = np.empty(len(sums) + (self.extents[0] - 1) * across, pixel)
        visit = np.empty(5, np.int64), np.empty(5, total)
        limits = np.array([0, 255] if bytes_out else [-np.inf, np.inf], total)
        correlate(
            *(source.values, planes.read, planes.given, weights.astype(total), self.extents[1], anchors, fills),
            *(BORDERS.index(self.border), total(0 if whole else planes.rounding), limits),
            *(target.values, planes.write, planes.made, lines, sums, *visit, bytes_in),
        )

    def trace_xla(self, images: Any, given: Any, terms: Sequence[Any], made: Any, shape: tuple[int, ...]) -> Any:
        """A sum over the filter, term by term."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        values = as_planes(images, self.layout).astype(np.float32)
        weights, anchors, fill = (jnp.asarray(term).astype(np.float32) for term in terms)
        rows, columns = (shape[self.layout.index(letter)] for letter in "HW")
        sizes = [given[:, self.layout.index(letter)][:, None] for letter in "HW"]
        total = jnp.zeros((*values.shape[:2], rows, columns, values.shape[4]), np.float32)
        for k in range(self.extents[0] * self.extents[1]):
            picked, outside = values, jnp.zeros((1, 1, 1, 1, 1), bool)
            for axis, (count, offset) in enumerate(zip((rows, columns), divmod(k, self.extents[1]), strict=True)):
                at = jnp.arange(count, dtype=np.int32)[None, :] + offset - anchors[:, axis, None].astype(np.int32)
                index, beyond = border_indices(self.border, at, sizes[axis])
                form = (-1, *(index.shape[1] if axis + 2 == place else 1 for place in range(1, 5)))
                picked = jnp.take_along_axis(picked, index.reshape(form), axis=axis + 2)
                beyond = beyond.reshape(form)
                outside = outside | beyond
            if self.border == "constant":
                picked = jnp.where(outside, fill.reshape(-1, 1, 1, 1, 1), picked)
            total = total + no_fma(jnp, picked * weights[:, k].reshape(-1, 1, 1, 1, 1))
        return from_planes(total, self.layout, shape)


def _whole(weights: Array, fills: Array) -> bool:
    """Whether sums of bytes are whole numbers of 16 bits, which are computed faster than floats, and are the same."""
    small = np.abs(weights).sum(axis=1).max(initial=0) * 255 <= np.iinfo(np.int16).max
    return bool(small and (weights == np.rint(weights)).all() and (fills == np.clip(np.rint(fills), 0, 255)).all())


def border_indices(border: str, at: Any, size: Any) -> tuple[Any, Any]:
    """In the device program, which pixels of an axis are read for places that may lie outside, and which of these do.

    Args:
        border: one of `BORDERS`.
        at: the places, int32.
        size: the extents of the axis, which broadcast against them.
    """
    import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

    index = at
    match border:
        case "wrap":
            index = at % size
        case "reflect_101":
            period = jnp.maximum(2 * size - 2, 1)
            index = jnp.minimum(at % period, period - at % period) * (size > 1)
        case "reflect_1001":
            index = jnp.minimum(at % (2 * size), 2 * size - 1 - at % (2 * size))
        case _:
            pass
    return jnp.clip(index, 0, size - 1), (at < 0) | (at >= size)


@Compiled
def border_index(at: int, size: int, border: int) -> int:
    """The pixel of an axis that is read for a place that may lie outside; -1 where there is none."""
    if 0 <= at < size:
        return at
    if border == _CONSTANT:
        return -1
    if border == _CLAMP:
        return min(max(at, 0), size - 1)
    if border == _REFLECT_101:
        return mirror_index(at, size)
    if border == _WRAP:
        return at % size
    at %= 2 * size
    return min(at, 2 * size - 1 - at)


@Compiled
def load_wide(
    pixels: Array, at: Array, size: Array, first: int, before: int, border: int, fill: float, wide: int, lines: Array
) -> None:
    """Rows of a plane as floats, with what lies beyond its edges.

    Args:
        pixels: the memory.
        at: of the plane: its first element, and the distances to the next row, column and channel.
        size: its height, width and channels.
        first: the first row, which may lie outside.
        before: how many columns come before the first one.
        border: a number of `BORDERS`.
        fill: the value of what lies outside, where the border is constant.
        wide: how many columns there are with those beyond the edges.
        lines: float32, the rows, one after the other, the channels of a pixel side by side.
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
    """The first weight from the k-th on that adds something, or how many there are."""
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
    made: Array,
    starts: Array,
    own: Array,
    finite: bool,
) -> None:
    """Planes of images, correlated with filters: in floats, or where both are bytes in whole numbers, which `made` has.

    Args:
        pixels: uint8 or float32.
        place_in: int64 (planes, 4): the first element, and the distances to the next row, column and channel.
        size_in: int64 (planes, 3): height, width, channels.
        filters: as `made` (planes or 1, rows * columns): the weights.
        columns: how many columns filters have.
        anchors: float32 (planes or 1, 2): which weight lies on the pixel of the result: row and column.
        fills: float32 (planes or 1, 1): the value of what lies outside, where the border is constant.
        border: a number of `BORDERS`.
        rounding: what is added before values are written: 0.5 where floats become whole numbers.
        limits: as `made` (2,): the least and the greatest value that is written.
        out: uint8 or float32.
        place_out: as `place_in`.
        size_out: as `size_in`.
        memory: float32 or uint8, for the rows that those in `made` see, with what lies beyond their edges; overwritten.
        made: float32 or int16, for one row of that, or for several that are computed together; overwritten.
        starts: int64 (5,), for the places of values that are weighed in one visit; overwritten.
        own: as `made` (5,), for their weights; overwritten.
        finite: whether all pixels are numbers, so that a weight of 0 adds nothing.
    """
    for n in range(place_in.shape[0]):
        weights, anchor, fill = (
            filters[n % filters.shape[0]],
            anchors[n % anchors.shape[0]],
            fills[n % fills.shape[0], 0],
        )
        high, wide, channels = size_out[n, 0], size_out[n, 1], size_out[n, 2]
        more = wide + columns - 1
        across, beyond = more * channels, weights.shape[0] // columns - 1
        together = made.shape[0] // max(across, 1)
        for first in range(0, high, max(together, 1)):
            count = min(together, high - first)
            lines = memory[: (count + beyond) * across]
            row, column = first - int(anchor[0]), int(anchor[1])
            load_wide(pixels, place_in[n], size_in[n], row, column, border, fill, more, lines)
            total = made[: count * across - (columns - 1) * channels]  # with what lies between rows
            k, begins = next_weight(weights, 0, finite), True
            while begins or k < weights.shape[0]:
                at = 0
                for some in range(starts.shape[0]):  # where there are too few, with a weight of nothing
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
