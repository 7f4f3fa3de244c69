"""PNM files whose values Pillow reads or scales one by one, in a loop of Python: plain ones, and other white levels."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from penstock.core import Array

if TYPE_CHECKING:
    from PIL import Image

# Channels of the modes of P2, P3, P5 and P6.
_CHANNELS = {"L": 1, "I": 1, "RGB": 3}

_SPACES = b" \t\n\v\f\r"


def decode(image: "Image.Image", data: Array) -> Array | None:
    """Decode the pixels of an open image as Pillow does, with values scaled to 255, or 65535 for gray with more bits.

    Returns:
        None for files that Pillow decodes faster.

    Raises:
        ValueError: The file is truncated.
    """
    if image.format != "PPM":
        return None
    tile = cast(Any, image).tile[0]
    if tile.codec_name == "ppm_plain":
        return _plain_pixels(image, data[tile.offset :].tobytes())
    if tile.codec_name != "ppm" or image.mode not in _CHANNELS:
        return None
    _, largest = tile.args
    shape = (image.height, image.width, _CHANNELS[image.mode])
    dtype = np.dtype(np.uint8 if largest < 256 else ">u2")
    content = data[tile.offset :][: dtype.itemsize * int(np.prod(shape))].tobytes()
    if len(content) < dtype.itemsize * np.prod(shape):
        raise ValueError("damaged: image file is truncated")
    values = np.minimum(np.frombuffer(content, dtype), largest)
    return _scaled(largest, 65535 if image.mode == "I" else 255)[values].reshape(shape)


def _plain_pixels(image: "Image.Image", text: bytes) -> Array | None:
    """Decode the text of a plain file; None for one with comments, and for a damaged one."""
    shape = (image.height, image.width, _CHANNELS.get(image.mode, 1))
    count = int(np.prod(shape))
    if image.mode == "1":
        # Spaces between the digits are optional, and 1 is black.
        digits = text.translate(None, _SPACES)[:count]
        if len(digits) < count or digits.translate(None, b"01"):
            return None
        return np.where(np.frombuffer(digits, np.uint8) == ord("0"), np.uint8(255), np.uint8(0)).reshape(shape)
    if image.mode not in _CHANNELS or text.translate(None, b"0123456789" + _SPACES):
        return None
    _, largest = cast(Any, image).tile[0].args
    values = np.fromstring(text, np.int64, sep=" ")[:count]
    if len(values) < count or np.any(values > largest):
        return None
    return _scaled(largest, 65535 if image.mode == "I" else 255)[values].reshape(shape)


@lru_cache(maxsize=4)
def _scaled(largest: int, white: int) -> Array:
    """Return the pixel of each value."""
    return np.rint(np.arange(largest + 1) / largest * white).astype(np.uint16 if white > 255 else np.uint8)
