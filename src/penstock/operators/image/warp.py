"""Warps: each pixel of the result is looked up at a place in the image."""
# pyright: basic
# JAX is typed in part only

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.data.source import Array
from penstock.native.compiled import Compiled, ahead
from penstock.operators.image.borders import Border, inside, pixel
from penstock.operators.image.cubic import warp_cubic, weights
from penstock.operators.image.places import Affine, Places, Projective, places
from penstock.operators.image.transform import Planes, Transform, as_planes, from_planes
from penstock.operators.sums import rounded

if TYPE_CHECKING:
    from penstock.operators.image.memory import Memory


class Interpolation(IntEnum):
    """How the value at a place is made of pixels."""

    NEAREST = 0
    """The pixel at the place is taken."""
    LINEAR = 1
    """Four are weighed."""
    CUBIC = 2
    """Sixteen are weighed, as `penstock.operators.image.cubic` says."""


@dataclass(frozen=True)
class Warp(Transform):
    """Each pixel of the result is the image's value at a place.

    Its terms are the numbers of the rule for places, and the value of what lies outside, one or one per channel.

    Args:
        layout: of the images.
        places: the rule.
        interpolation: how values are made of pixels.
        border: what lies outside.
    """

    layout: str
    places: Places
    interpolation: Interpolation
    border: Border

    def origin(self, terms: Sequence[Any]) -> Any:
        """What the matrix says, if the rule is one."""
        return terms[0] if isinstance(self.places, Affine | Projective) else super().origin(terms)

    def picked(self, layout: str, terms: Sequence[Any], fill: float) -> tuple[Transform, Sequence[Any]]:
        """The same, with the nearest pixel."""
        picking = replace(self, layout=layout, interpolation=Interpolation.NEAREST, border=Border.CONSTANT)
        return picking, (terms[0], np.array([[fill]], np.float32))

    def rows(
        self, source: Memory, given: NDArray[np.int64], terms: Sequence[Any], target: Memory, made: NDArray[np.int64]
    ) -> None:
        """All planes in one call."""
        planes = Planes.of(self.layout, source, given, target, made)
        numbers, fill = planes.term(terms[0]), planes.term(terms[1])
        height, width, _ = planes.made.max(axis=0, initial=0).tolist()
        table, found = self.places.table(height, width), np.empty((2, width), np.float32)
        before = source.values, planes.read, planes.given, self.places.code, numbers, table, fill
        after = int(self.border), planes.rounding, found, target.values, planes.write, planes.made
        if self.interpolation is Interpolation.CUBIC:
            warp_cubic(*before, np.empty((2, 4), np.int64), np.empty((2, 4), np.float32), *after)
        else:
            warp(*before, self.interpolation is Interpolation.NEAREST, *after)

    def trace(self, images: Any, given: Any, terms: Sequence[Any], made: Any, shape: tuple[int, ...]) -> Any:
        """Gathered from the flat pixels of each plane."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        planes = as_planes(images, self.layout)
        rows, _, rows_in, columns_in, channels = planes.shape
        size_y, size_x = (given[:, self.layout.index(letter)][:, None, None] for letter in "HW")
        height, width = (shape[self.layout.index(letter)] for letter in "HW")
        at_x, at_y = self.places.trace(jnp.asarray(terms[0]), (size_y, size_x), height, width)
        flat = planes.reshape(rows, -1, rows_in * columns_in, channels)
        fill = jnp.asarray(terms[1]).astype(np.float32)[:, None, None, None, :]

        def look_up(column: Any, row: Any) -> Any:
            exists = (column >= 0) & (column < size_x) & (row >= 0) & (row < size_y)
            column, row = (inside(at, size, self.border) for at, size in ((column, size_x), (row, size_y)))
            index = jnp.broadcast_to(row * columns_in + column, (rows, height, width)).reshape(rows, 1, -1, 1)
            found = jnp.take_along_axis(flat, index, axis=2).astype(np.float32)
            found = found.reshape(rows, -1, height, width, channels)
            if self.border is not Border.CONSTANT:
                return found
            return jnp.where(jnp.broadcast_to(exists, (rows, height, width))[:, None, :, :, None], found, fill)

        limit = np.float32(1 << 24)  # what lies far outside must not overflow
        back = np.float32(0 if self.interpolation is Interpolation.NEAREST else 0.5)
        at_x, at_y = (jnp.where(jnp.isnan(at), limit, jnp.clip(at - back, -limit, limit)) for at in (at_x, at_y))
        left, top = jnp.floor(at_x), jnp.floor(at_y)
        by_x, by_y = (at_x - left)[:, None, :, :, None], (at_y - top)[:, None, :, :, None]
        left, top = left.astype(np.int32), top.astype(np.int32)
        match self.interpolation:
            case Interpolation.NEAREST:
                values = look_up(left, top)
            case Interpolation.LINEAR:
                upper = look_up(left, top) + rounded(jnp, by_x * (look_up(left + 1, top) - look_up(left, top)))
                beside = rounded(jnp, by_x * (look_up(left + 1, top + 1) - look_up(left, top + 1)))
                lower = look_up(left, top + 1) + beside
                values = upper + rounded(jnp, by_y * (lower - upper))
            case _:
                across, down = weights.plain(by_x), weights.plain(by_y)
                lines = [
                    sum(rounded(jnp, by * look_up(left + k - 1, top + n - 1)) for k, by in enumerate(across))
                    for n in range(4)
                ]
                values = sum(rounded(jnp, by * line) for by, line in zip(down, lines, strict=True))
        return from_planes(values, self.layout, shape)


_KINDS = "i8[2] i8[2] i8 f4[2] f4[1] f4[2] b1 i8 f4 f4[2]"


@ahead(*(f"{a}[1] {_KINDS} {b}[1] i8[2] i8[2]" for a, b in (("u1", "u1"), ("u1", "f4"), ("f4", "f4"))))
@Compiled
def warp(
    pixels: Array,
    place_in: Array,
    size_in: Array,
    code: int,
    numbers: Array,
    table: Array,
    fills: Array,
    nearest: bool,
    border: int,
    rounding: np.float32,
    found: Array,
    out: Array,
    place_out: Array,
    size_out: Array,
) -> None:
    """Planes of images, warped.

    Args:
        pixels: uint8 or float32.
        place_in: int64 (planes, 4): the first element, and the distances to the next row, column and channel.
        size_in: int64 (planes, 3): height, width, channels.
        code: the rule for places.
        numbers: float32 (planes or 1, n): its numbers.
        table: float32 (n,): its table.
        fills: float32 (planes or 1, channels or 1): the value of what lies outside.
        nearest: whether one pixel is taken; else four are interpolated.
        border: what lies outside.
        rounding: what is added before values are written: 0.5 where they are whole numbers.
        found: float32 (2, width), for the places of a row.
        out: uint8 or float32.
        place_out: as `place_in`.
        size_out: as `size_in`.
    """
    half, limit = np.float32(0.5), np.float32(1 << 24)
    back = np.float32(0) if nearest else half
    for n in range(place_in.shape[0]):
        own, fill, place, size = numbers[n % numbers.shape[0]], fills[n % fills.shape[0]], place_in[n], size_in[n]
        start, down, right = place[0], place[1], place[2]
        for row in range(size_out[n, 0]):
            places(code, own, table, row, size, size_out[n], found[0], found[1])
            to = place_out[n, 0] + row * place_out[n, 1]
            for column in range(size_out[n, 1]):
                at_x, at_y = found[0, column], found[1, column]
                at_x = min(max(at_x - back, -limit), limit) if at_x == at_x else limit
                at_y = min(max(at_y - back, -limit), limit) if at_y == at_y else limit
                left, top = math.floor(at_x), math.floor(at_y)
                by_x, by_y = at_x - np.float32(left), at_y - np.float32(top)
                beyond = 0 if nearest else 1
                inside = 0 <= left < size[1] - beyond and 0 <= top < size[0] - beyond
                at = start + top * down + left * right
                for c in range(size[2]):
                    if inside and nearest:
                        made = np.float32(pixels[np.uint64(at)])
                    elif inside:  # indices are unsigned: for a signed one, numba asks whether it counts from the end
                        a, b = np.float32(pixels[np.uint64(at)]), np.float32(pixels[np.uint64(at + right)])
                        d, e = (
                            np.float32(pixels[np.uint64(at + down)]),
                            np.float32(pixels[np.uint64(at + down + right)]),
                        )
                        upper, lower = a + by_x * (b - a), d + by_x * (e - d)
                        made = upper + by_y * (lower - upper)
                    else:
                        begin, value = start + c * place[3], fill[c % fill.shape[0]]
                        a = pixel(pixels, begin, place, size, top, left, border, value)
                        made = a
                        if not nearest:
                            b = pixel(pixels, begin, place, size, top, left + 1, border, value)
                            d = pixel(pixels, begin, place, size, top + 1, left, border, value)
                            e = pixel(pixels, begin, place, size, top + 1, left + 1, border, value)
                            upper, lower = a + by_x * (b - a), d + by_x * (e - d)
                            made = upper + by_y * (lower - upper)
                    out[np.uint64(to + c * place_out[n, 3])] = made + rounding
                    at += place[3]
                to += place_out[n, 2]
