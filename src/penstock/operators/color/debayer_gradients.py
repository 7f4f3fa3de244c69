"""Colours of a Bayer filter by gradients: each pixel's from the directions in which it changes least."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

_STRAIGHT = ((-1, 0), (1, 0), (0, -1), (0, 1))
_DIAGONAL = ((-1, 1), (1, -1), (-1, -1), (1, 1))
REACH = 3
"""How far away pixels are looked at."""
_AT_ONCE = 8
"""So many pixels of a row OpenCV computes together, from the first that is not green; the rest one by one."""
_FOURTEENTH = np.float32(0.0714286)
"""1 / 14, as OpenCV writes it where it computes pixels one by one. With it, halves are rounded up."""


def by_gradients(xp: Any, seen: Any, row: Any, column: Any) -> list[Any]:
    """Red, green and blue by a variable number of gradients (Chang, Cheung and Pang, 1999), as OpenCV computes it.

    Beyond its edges an image goes on mirrored, without its outermost pixels.

    Args:
        xp: the array namespace.
        seen: uint8 (..., height, width), each at least 8.
        row: whether the row of a pixel has blue ones.
        column: whether its column has. Blue ones are where both have, red ones where neither has.
    """
    height, width = seen.shape[-2:]
    widths = [*((0, 0),) * (seen.ndim - 2), (REACH, REACH), (REACH, REACH)]
    padded = xp.pad(seen.astype(np.int32), widths, mode="reflect")

    def at(y: int, x: int) -> Any:
        return padded[..., REACH + y : REACH + y + height, REACH + x : REACH + x + width]

    def step(y: int, x: int, dy: int, dx: int, ey: int, ex: int) -> Any:
        return abs(at(y + dy, x + dx) - at(y + ey, x + ex))

    @cache
    def along(y: int, x: int, vertical: bool) -> Any:
        """The change across a pixel and its neighbours on both sides."""
        ends = [((-1, k), (1, k)) if vertical else ((k, -1), (k, 1)) for k in (-1, 0, 0, 1)]
        return sum(step(y, x, *one, *other) for one, other in ends)

    @cache
    def across(y: int, x: int, rising: bool) -> Any:
        """Twice the change from corner to corner."""
        side = 1 if rising else -1
        return 2 * step(y, x, -1, side, 1, -side)

    @cache
    def beside(y: int, x: int, rising: bool) -> Any:
        """The same, and the changes along the sides of that diagonal."""
        side = 1 if rising else -1
        return across(y, x, rising) + step(y, x, -1, 0, 0, -side) + step(y, x, 1, 0, 0, side)

    straight = [along(0, 0, dx == 0) + along(dy, dx, dx == 0) for dy, dx in _STRAIGHT]
    of_others = [beside(0, 0, dy != dx) + beside(dy, dx, dy != dx) for dy, dx in _DIAGONAL]
    of_greens = [sum(across(y, x, dy != dx) for y in (0, dy) for x in (0, dx)) for dy, dx in _DIAGONAL]

    others: list[Any] = []  # per direction three sums of two pixels: of the pixel's own colour, and of the others
    greens: list[Any] = []
    for dy, dx in (*_STRAIGHT, *_DIAGONAL):
        twice, further = 2 * at(dy, dx), at(2 * dy, 2 * dx) + at(0, 0)
        if dy and dx:
            around = at(dy - 1, dx) + at(dy + 1, dx) + at(dy, dx - 1) + at(dy, dx + 1)
            others.append((further, around >> 1, twice))
        else:
            others.append((further, twice, at(dy + dx, dx + dy) + at(dy - dx, dx - dy)))
        in_row = at(2 * dy, dx or -1) + at(0 if dx else 2 * dy, dx or 1)
        in_column = at(dy or -1, 2 * dx) + at(dy or 1, 0 if dy else 2 * dx)
        greens.append((twice if dy and dx else further, in_row, in_column))

    is_green = row != column
    start = is_green[..., :1].astype(np.int32)
    places = np.arange(width, dtype=np.int32).reshape(*(1,) * (start.ndim - 1), width)
    single = (places < start) | (places >= start + (width - start) // _AT_ONCE * _AT_ONCE)

    def mended(gradients: list[Any], sums: list[Any]) -> tuple[Any, Any]:
        """The colours that a pixel lacks: its own, and by how much they differ from it where it changes least."""
        slopes = xp.stack(gradients)
        least, most = slopes.min(axis=0, keepdims=True), slopes.max(axis=0, keepdims=True)
        flat = (slopes < least + xp.maximum(most // 2, 1)).astype(np.int32)
        own, first, second = (
            (flat * xp.stack(values)).sum(axis=0, dtype=np.int32) for values in zip(*sums, strict=True)
        )
        count = flat.sum(axis=0, dtype=np.int32)
        share = xp.where(single & (count == 7), _FOURTEENTH, np.float32(0.5) / count.astype(np.float32))
        changes = (xp.rint((each - own).astype(np.float32) * share).astype(np.int32) for each in (first, second))
        one, other = (xp.clip(at(0, 0) + change, 0, 255) for change in changes)
        return one, other

    green, opposite = mended([*straight, *of_others], others)
    in_row, in_column = mended([*straight, *of_greens], greens)
    here = at(0, 0)
    red = xp.where(is_green, xp.where(row, in_column, in_row), xp.where(row, opposite, here))
    blue = xp.where(is_green, xp.where(row, in_row, in_column), xp.where(row, here, opposite))
    return [red, xp.where(is_green, here, green), blue]
