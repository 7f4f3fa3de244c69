"""What is known of an image before it is decoded, and which part of it is wanted."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Region(NamedTuple):
    """Rows from `top` up to `bottom` and columns from `left` up to `right`, the last ones excluded."""

    top: int
    bottom: int
    left: int
    right: int


class ImageHeader(NamedTuple):
    """An image as its decoder will deliver it, and what the decoder needs to know again.

    Args:
        height: rows, after the image is turned.
        width: columns, after the image is turned.
        channels: as the output type asks for.
        dtype: uint8, or uint16 where the file has 16 bits of grey.
        orientation: how the stored pixels are to be turned, as EXIF counts it.
        frame: where the frame header of a JPEG begins; 0 if Pillow decodes the image.
        below: how many more stored rows are decoded than are needed: the smooth upsampling of colours looks at them.
        head: how many bytes, from the first on, say all this; 0 where that is not known. Files with the same ones have
            the same header.
    """

    height: int
    width: int
    channels: int
    dtype: np.dtype[Any]
    orientation: int
    frame: int
    below: int = 0
    head: int = 0

    @property
    def reducible(self) -> bool:
        """Whether the image can be decoded at a half, a quarter or an eighth of its size."""
        return self.frame > 0


def check_size(height: int, width: int) -> None:
    """Refuse an image of too many pixels before any memory is taken for it.

    Raises:
        ValueError: it has more than `MAX_PIXELS`.
    """
    if height * width > MAX_PIXELS:
        raise ValueError(f"the header announces {height} x {width} pixels, more than the {MAX_PIXELS} that are decoded")


MAX_PIXELS = 1 << 27
"""No image may become larger than this: 134 million pixels."""
