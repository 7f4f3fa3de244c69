"""Warps: each pixel of the result is looked up where a matrix says."""
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
from penstock.operators.image.transform import Planes, Transform, as_planes, from_planes

if TYPE_CHECKING:
    from penstock.operators.image.rows import Memory


@dataclass(frozen=True)
class Warp(Transform):
    """Each pixel of the result is the image's value at the place to which a matrix maps its centre.

    The corner of the first pixel has the coordinates (0, 0), its centre (0.5, 0.5). Its terms are the matrix, row by
    row, and the value of what lies outside, one or one per channel. Where the matrix is affine, each place is computed
    from the one to its left, as DALI does: where a place falls on the edge between two pixels, rounding chooses one.

    Args:
        layout: of the images.
        affine: whether the matrix has two rows of three numbers; else it has three, and places are divided by what the
            third gives.
        nearest: whether the pixel at the place is taken; else four are interpolated.
        filled: whether what lies outside has a value; else the pixels at the edge are repeated.
    """

    layout: str
    affine: bool
    nearest: bool
    filled: bool

    def rows(
        self, source: Memory, given: NDArray[np.int64], terms: Sequence[Any], target: Memory, made: NDArray[np.int64]
    ) -> None:
        """All planes in one call."""
        planes = Planes.of(self.layout, source, given, target, made)
        matrix, fill = planes.term(terms[0]), planes.term(terms[1])
        warp(
            *(source.values, planes.read, planes.given, matrix, fill),
            *(self.affine, self.nearest, self.filled, planes.rounding, target.values, planes.write, planes.made),
        )

    def trace(self, images: Any, given: Any, terms: Sequence[Any], made: Any, shape: tuple[int, ...]) -> Any:
        """Gathered from the flat pixels of each plane."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        planes = as_planes(images, self.layout)
        rows, _, rows_in, columns_in, channels = planes.shape
        sizes = {letter: given[:, at][:, None, None] for at, letter in enumerate(self.layout)}
        height, width = (shape[self.layout.index(letter)] for letter in "HW")
        at_x, at_y = _places(jnp.asarray(terms[0]), height, width)
        flat = planes.reshape(rows, -1, rows_in * columns_in, channels)
        fill = jnp.asarray(terms[1]).astype(np.float32)[:, None, None, None, :]

        def look_up(column: Any, row: Any) -> Any:
            inside = (column >= 0) & (column < sizes["W"]) & (row >= 0) & (row < sizes["H"])
            column, row = jnp.clip(column, 0, sizes["W"] - 1), jnp.clip(row, 0, sizes["H"] - 1)
            index = jnp.broadcast_to(row * columns_in + column, (rows, height, width)).reshape(rows, 1, -1, 1)
            found = jnp.take_along_axis(flat, index, axis=2).astype(np.float32)
            found = found.reshape(rows, -1, height, width, channels)
            return jnp.where(inside[:, None, :, :, None], found, fill) if self.filled else found

        limit = np.float32(1 << 24)  # what lies far outside must not overflow
        if self.nearest:
            at_x, at_y = (jnp.clip(jnp.floor(at), -limit, limit).astype(np.int32) for at in (at_x, at_y))
            values = look_up(at_x, at_y)
        else:
            at_x, at_y = (jnp.clip(at - np.float32(0.5), -limit, limit) for at in (at_x, at_y))
            left, top = jnp.floor(at_x), jnp.floor(at_y)
            by_x, by_y = (at_x - left)[:, None, :, :, None], (at_y - top)[:, None, :, :, None]
            left, top = left.astype(np.int32), top.astype(np.int32)
            upper = look_up(left, top) + by_x * (look_up(left + 1, top) - look_up(left, top))
            lower = look_up(left, top + 1) + by_x * (look_up(left + 1, top + 1) - look_up(left, top + 1))
            values = upper + by_y * (lower - upper)
        return from_planes(values, self.layout, shape)


def _places(matrix: Any, height: int, width: int) -> tuple[Any, Any]:
    """Where the pixels of a result are looked up, x and y, each (rows, height, width)."""
    import jax  # noqa: PLC0415  # for the device program alone
    import jax.numpy as jnp  # noqa: PLC0415  # likewise

    m = [matrix[:, k, None] for k in range(matrix.shape[1])]
    y = (jnp.arange(height, dtype=np.float32) + np.float32(0.5))[None, :]
    starts = [by_x * np.float32(0.5) + (by_y * y + offset) for by_x, by_y, offset in (m[:3], m[3:6])]
    if len(m) == 6:
        steps = (m[0], m[3])

        def right(at: Any, _: Any) -> Any:
            return [each + step for each, step in zip(at, steps, strict=True)], at

        _, places = jax.lax.scan(right, starts, None, length=width)
        at_x, at_y = (jnp.moveaxis(each, 0, 2) for each in places)
        return at_x, at_y
    x = (jnp.arange(width, dtype=np.float32) + np.float32(0.5))[None, None, :]
    at_x, at_y, w = (a[..., None] * x + (b * y + c)[..., None] for a, b, c in (m[:3], m[3:6], m[6:]))
    return at_x / w, at_y / w


@Compiled
def pixel(pixels: Array, start: int, place: Array, size: Array, row: int, column: int, filled: bool, value: Any) -> Any:
    """One channel of a pixel that may lie outside: then it is a value, or the nearest pixel.

    Args:
        pixels: the memory.
        start: the element in which the channel begins.
        place: of the plane.
        size: height and width.
        row: which row.
        column: which column.
        filled: whether what lies outside has a value.
        value: the value.
    """
    if filled and (row < 0 or column < 0 or row >= size[0] or column >= size[1]):
        return value
    row, column = min(max(row, 0), size[0] - 1), min(max(column, 0), size[1] - 1)
    return np.float32(pixels[start + row * place[1] + column * place[2]])


_KINDS = "i8[2] i8[2] f4[2] f4[2] b1 b1 b1 f4"


@ahead(*(f"{a}[1] {_KINDS} {b}[1] i8[2] i8[2]" for a, b in (("u1", "u1"), ("u1", "f4"), ("f4", "f4"))))
@Compiled
def warp(
    pixels: Array,
    place_in: Array,
    size_in: Array,
    matrices: Array,
    fills: Array,
    affine: bool,
    nearest: bool,
    filled: bool,
    rounding: np.float32,
    out: Array,
    place_out: Array,
    size_out: Array,
) -> None:
    """Planes of images, warped.

    Args:
        pixels: uint8 or float32.
        place_in: int64 (planes, 4): the first element, and the distances to the next row, column and channel.
        size_in: int64 (planes, 3): height, width, channels.
        matrices: float32 (planes or 1, 6 or 9), from the result to the image.
        fills: float32 (planes or 1, channels or 1): the value of what lies outside.
        affine: whether matrices have six numbers.
        nearest: whether one pixel is taken; else four are interpolated.
        filled: whether what lies outside has that value; else the edge is repeated.
        rounding: what is added before values are written: 0.5 where they are whole numbers.
        out: uint8 or float32.
        place_out: as `place_in`.
        size_out: as `size_in`.
    """
    half, limit = np.float32(0.5), np.float32(1 << 24)
    back = np.float32(0) if nearest else half
    for n in range(place_in.shape[0]):
        m, fill, place, size = matrices[n % matrices.shape[0]], fills[n % fills.shape[0]], place_in[n], size_in[n]
        start, down, right = place[0], place[1], place[2]
        for row in range(size_out[n, 0]):
            y = np.float32(row) + half
            from_x, from_y = m[1] * y + m[2], m[4] * y + m[5]
            affine_x, affine_y = m[0] * half + from_x, m[3] * half + from_y
            to = place_out[n, 0] + row * place_out[n, 1]
            for column in range(size_out[n, 1]):
                if affine:
                    at_x, at_y = affine_x, affine_y
                    affine_x, affine_y = affine_x + m[0], affine_y + m[3]
                else:
                    x = np.float32(column) + half
                    w = m[6] * x + (m[7] * y + m[8])
                    at_x, at_y = (m[0] * x + from_x) / w, (m[3] * x + from_y) / w
                at_x = min(max(at_x - back, -limit), limit) if at_x == at_x else limit
                at_y = min(max(at_y - back, -limit), limit) if at_y == at_y else limit
                left, top = math.floor(at_x), math.floor(at_y)
                by_x, by_y = at_x - np.float32(left), at_y - np.float32(top)
                inside = 0 <= left < size[1] - 1 and 0 <= top < size[0] - 1
                at = start + top * down + left * right
                for c in range(size[2]):
                    begin, value = start + c * place[3], fill[c % fill.shape[0]]
                    if nearest:
                        made = pixel(pixels, begin, place, size, top, left, filled, value)
                    else:
                        if inside:
                            a, b = np.float32(pixels[at]), np.float32(pixels[at + right])
                            d, e = np.float32(pixels[at + down]), np.float32(pixels[at + down + right])
                        else:
                            a = pixel(pixels, begin, place, size, top, left, filled, value)
                            b = pixel(pixels, begin, place, size, top, left + 1, filled, value)
                            d = pixel(pixels, begin, place, size, top + 1, left, filled, value)
                            e = pixel(pixels, begin, place, size, top + 1, left + 1, filled, value)
                        upper, lower = a + by_x * (b - a), d + by_x * (e - d)
                        made = upper + by_y * (lower - upper)
                    out[to + c * place_out[n, 3]] = made + rounding
                    at += place[3]
                to += place_out[n, 2]
