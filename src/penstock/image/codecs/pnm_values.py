"""Binary PNM files whose largest value is not 255, which Pillow scales one by one in a loop of Python."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from penstock.core import Array

if TYPE_CHECKING:
    from PIL import Image

# Channels of the modes of P5 and P6.
_CHANNELS = {"L": 1, "I": 1, "RGB": 3}


def decode(image: "Image.Image", data: Array) -> Array | None:
    """Decode the pixels of an open image as Pillow does, with values scaled to 255, or 65535 for gray with more bits.

    Returns:
        None for files that Pillow decodes faster.

    Raises:
        ValueError: The file is truncated.
    """
    if image.format != "PPM" or image.mode not in _CHANNELS:
        return None
    tile = cast(Any, image).tile[0]
    if tile.codec_name != "ppm":
        return None
    _, largest = tile.args
    shape = (image.height, image.width, _CHANNELS[image.mode])
    dtype = np.dtype(np.uint8 if largest < 256 else ">u2")
    content = data[tile.offset :][: dtype.itemsize * int(np.prod(shape))].tobytes()
    if len(content) < dtype.itemsize * np.prod(shape):
        raise ValueError("damaged: image file is truncated")
    values = np.minimum(np.frombuffer(content, dtype), largest)
    return _scaled(largest, 65535 if image.mode == "I" else 255)[values].reshape(shape)


@lru_cache(maxsize=4)
def _scaled(largest: int, white: int) -> Array:
    """Return the pixel of each value."""
    return np.rint(np.arange(largest + 1) / largest * white).astype(np.uint16 if white > 255 else np.uint8)
