"""Borders: what lies outside of an image."""
# pyright: basic
# JAX is typed in part only

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from penstock.core.columns import Array
from penstock.image.kernels.plane_io import mirror_index
from penstock.native.compiled import Compiled


class Border(IntEnum):
    """What lies outside of an image."""

    CONSTANT = 0
    """A value."""
    REPLICATE = 1
    """The pixels at the edge, again and again: aaa|abcd|ddd."""
    REFLECT = 2
    """The image, mirrored: cba|abcd|dcb."""
    REFLECT_101 = 3
    """The image, mirrored without its outermost pixels: dcb|abcd|cba."""
    WRAP = 4
    """The image from its other side on: bcd|abcd|abc."""


CONSTANT, _REFLECT, _REFLECT_101, _WRAP = 0, 2, 3, 4  # as compiled loops can read them


@Compiled
def fold_index(at: int, size: int, border: int) -> int:
    """The pixel that stands for one that may lie outside.

    Args:
        at: its number along an axis.
        size: how many pixels the image has there, at least 1.
        border: what lies outside; a value counts as the pixel at the edge.
    """
    if border == _WRAP:
        return at % size
    if border == _REFLECT:
        at %= 2 * size
        return min(at, 2 * size - 1 - at)
    if border == _REFLECT_101:
        return mirror_index(at, size)
    return min(max(at, 0), size - 1)


@Compiled
def read_pixel(
    pixels: Array, start: int, place: Array, size: Array, row: int, column: int, border: int, value: Any
) -> Any:
    """One channel of a pixel that may lie outside.

    Args:
        pixels: the memory.
        start: the element in which the channel begins.
        place: of the plane.
        size: height and width.
        row: which row.
        column: which column.
        border: what lies outside.
        value: the value, if that is one.
    """
    if row < 0 or column < 0 or row >= size[0] or column >= size[1]:
        if border == CONSTANT or size[0] * size[1] == 0:
            return value
        row, column = fold_index(row, size[0], border), fold_index(column, size[1], border)
    return np.float32(pixels[start + row * place[1] + column * place[2]])
