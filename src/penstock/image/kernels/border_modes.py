"""Border modes: values of pixels outside of an image."""
# pyright: basic
# JAX is typed in part only

from enum import IntEnum
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.image.kernels.plane_io import mirror_index
from penstock.native.compiled import Compiled


class Border(IntEnum):
    """Border mode of an image."""

    # A fill value.
    CONSTANT = 0
    # The edge pixel, repeated: aaa|abcd|ddd.
    REPLICATE = 1
    # Mirrored: cba|abcd|dcb.
    REFLECT = 2
    # Mirrored without the edge pixel: dcb|abcd|cba.
    REFLECT_101 = 3
    # Periodic: bcd|abcd|abc.
    WRAP = 4


# The members of `Border` as plain integers: compiled loops can only read integer constants.
CONSTANT, _REFLECT, _REFLECT_101, _WRAP = 0, 2, 3, 4


@Compiled
def fold_index(at: int, size: int, border: int) -> int:
    """Return the index of the pixel inside that a possibly outside index refers to.

    Args:
        at: Index along an axis.
        size: Extent of the axis, at least 1.
        border: Border mode; CONSTANT counts as REPLICATE.
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
def border_index(at: int, size: int, border: int) -> int:
    """Return the index to read for a possibly outside index; -1 if the border is constant."""
    if border == CONSTANT and not 0 <= at < size:
        return -1
    return fold_index(at, size, border)


@Compiled
def read_pixel(
    pixels: Array, start: int, place: Array, size: Array, row: int, column: int, border: int, value: Any
) -> Any:
    """Read one channel of a pixel that may be outside.

    Args:
        pixels: The memory.
        start: Offset of the channel's first element.
        place: Offset and strides of the plane.
        size: Height and width.
        row: Row index.
        column: Column index.
        border: Border mode.
        value: Fill value if the border is constant.
    """
    if row < 0 or column < 0 or row >= size[0] or column >= size[1]:
        # An empty image has no edge pixel to repeat.
        if border == CONSTANT or size[0] * size[1] == 0:
            return value
        row, column = fold_index(row, size[0], border), fold_index(column, size[1], border)
    return np.float32(pixels[start + row * place[1] + column * place[2]])
