"""Variable number of gradients: the algorithm "vng_ocv" of `fn.debayer`."""

from functools import cache
from typing import Any

import numpy as np

_STRAIGHT = ((-1, 0), (1, 0), (0, -1), (0, 1))
_DIAGONAL = ((-1, 1), (1, -1), (-1, -1), (1, 1))
# Radius of the neighborhood of a pixel.
REACH = 3
# Width of OpenCV's SIMD loop, which starts at the first pixel of a row that is not green. Its scalar loop computes the
# rest.
_SIMD_WIDTH = 8
# 1 / 14 as the scalar loop of OpenCV spells it. It is slightly too large, so halves round up there.
_FOURTEENTH = np.float32(0.0714286)


def by_gradients(xp: Any, raw: Any, row: Any, column: Any) -> list[Any]:
    """Return red, green and blue by variable number of gradients (Chang, Cheung and Pang, 1999), with OpenCV's results.

    Images are padded by reflection without repeating the border.

    Args:
        xp: Array namespace.
        raw: uint8 (..., height, width); height and width are at least 8.
        row: True for rows with blue pixels.
        column: True for columns with blue pixels. Pixels are blue if both are True, red if neither is.
    """
    height, width = raw.shape[-2:]
    widths = [*((0, 0),) * (raw.ndim - 2), (REACH, REACH), (REACH, REACH)]
    padded = xp.pad(raw.astype(np.int32), widths, mode="reflect")

    def at(y: int, x: int) -> Any:
        return padded[..., REACH + y : REACH + y + height, REACH + x : REACH + x + width]

    def step(y: int, x: int, dy: int, dx: int, ey: int, ex: int) -> Any:
        return abs(at(y + dy, x + dx) - at(y + ey, x + ex))

    @cache
    def along(y: int, x: int, vertical: bool) -> Any:
        """Return the gradient across a pixel, with half weights for the neighbors on both sides."""
        ends = [((-1, k), (1, k)) if vertical else ((k, -1), (k, 1)) for k in (-1, 0, 0, 1)]
        return sum(step(y, x, *one, *other) for one, other in ends)

    @cache
    def across(y: int, x: int, rising: bool) -> Any:
        """Return twice the gradient from corner to corner."""
        side = 1 if rising else -1
        return 2 * step(y, x, -1, side, 1, -side)

    @cache
    def beside(y: int, x: int, rising: bool) -> Any:
        """Return the gradient from corner to corner, with the gradients parallel to it."""
        side = 1 if rising else -1
        return across(y, x, rising) + step(y, x, -1, 0, 0, -side) + step(y, x, 1, 0, 0, side)

    # Gradients in eight directions. Diagonals differ between green pixels and the others, whose corners are of another
    # color.
    straight = [along(0, 0, dx == 0) + along(dy, dx, dx == 0) for dy, dx in _STRAIGHT]
    of_others = [beside(0, 0, dy != dx) + beside(dy, dx, dy != dx) for dy, dx in _DIAGONAL]
    of_greens = [sum(across(y, x, dy != dx) for y in (0, dy) for x in (0, dx)) for dy, dx in _DIAGONAL]

    # Per direction three sums of two pixels: of the pixel's own color, and of each other color.
    others: list[Any] = []
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

    # OpenCV's SIMD and scalar loops round differently: reproduce for each pixel the loop that computes it.
    is_green = row != column
    start = is_green[..., :1].astype(np.int32)
    places = np.arange(width, dtype=np.int32).reshape(*(1,) * (start.ndim - 1), width)
    single = (places < start) | (places >= start + (width - start) // _SIMD_WIDTH * _SIMD_WIDTH)

    def interpolate(gradients: list[Any], sums: list[Any]) -> tuple[Any, Any]:
        """Return the two missing colors: the pixel plus the color differences along the flat directions."""
        slopes = xp.stack(gradients)
        least, most = slopes.min(axis=0, keepdims=True), slopes.max(axis=0, keepdims=True)
        # The threshold of OpenCV: smallest gradient plus half of the largest.
        flat = (slopes < least + xp.maximum(most // 2, 1)).astype(np.int32)
        own, first, second = (
            (flat * xp.stack(values)).sum(axis=0, dtype=np.int32) for values in zip(*sums, strict=True)
        )
        count = flat.sum(axis=0, dtype=np.int32)
        share = xp.where(single & (count == 7), _FOURTEENTH, np.float32(0.5) / count.astype(np.float32))
        changes = (xp.rint((total - own).astype(np.float32) * share).astype(np.int32) for total in (first, second))
        one, other = (xp.clip(at(0, 0) + change, 0, 255) for change in changes)
        return one, other

    green, opposite = interpolate([*straight, *of_others], others)
    in_row, in_column = interpolate([*straight, *of_greens], greens)
    here = at(0, 0)
    red = xp.where(is_green, xp.where(row, in_column, in_row), xp.where(row, opposite, here))
    blue = xp.where(is_green, xp.where(row, in_row, in_column), xp.where(row, here, opposite))
    return [red, xp.where(is_green, here, green), blue]
