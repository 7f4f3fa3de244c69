"""Corrections of files that Pillow opens, but would decode to other pixels than the format defines."""

import re
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from penstock.core import Array

if TYPE_CHECKING:
    from PIL import Image

# Tags of TIFFs.
_BITS_PER_SAMPLE, _COMPRESSION, _PLANAR_CONFIGURATION = 258, 259, 284

# Values of these tags.
_LZW, _PLANES = 5, 2

# The length of the oldest BMP header, which states the depth at another place.
_CORE_HEADER = 12

# The depth of palette images that each mode stands for, after Pillow has replaced a palette by it.
_DEPTHS = {"1": 1, "L": 8}


def correct(image: "Image.Image", data: Array) -> None:
    """Correct an open image, before its pixels are decoded."""
    if image.format == "BMP" and image.mode in _DEPTHS:
        _restore_gray_palette(image, data)
    elif image.format == "TIFF":
        # Pillow would turn the pixels by an orientation in the XMP data, which the header does not show.
        image.info.pop("xmp", None)
        if cast(Any, image).tag_v2.get(_PLANAR_CONFIGURATION) == _PLANES:
            _read_planes(image)
        _keep_colors(image)


def unused_bits(image: "Image.Image") -> int:
    """Return the number of high bits that are 0 in all values of an image with 16 bits."""
    bits = cast(Any, image).tag_v2.get(_BITS_PER_SAMPLE) if image.format == "TIFF" else None
    return 4 if bits == (12,) else 0


def has_gray_palette(image: "Image.Image") -> bool:
    """Return True for a BMP whose palette has no color; DALI reads such a file as gray."""
    if image.format != "BMP" or image.palette is None:
        return False
    order, palette = image.palette.getdata()
    size = len(order)  # such as BGRX
    colors = np.frombuffer(bytes(palette), np.uint8)[: len(palette) // size * size].reshape(-1, size)
    return bool((colors[:, :3] == colors[:, :1]).all())


def _restore_gray_palette(image: "Image.Image", data: Array) -> None:
    """Restore the palette that Pillow drops if its entries are black and white, or count up from 0.

    Pillow then unpacks the pixels as if they had 1 or 8 bits, whatever the header states.
    """
    from PIL import ImagePalette  # noqa: PLC0415  # Pillow is imported late

    depth = int(data[24 if data[14] == _CORE_HEADER else 28])
    if depth == _DEPTHS[image.mode]:
        return
    levels = [0, 255] if image.mode == "1" else range(256)
    image.palette = ImagePalette.raw("RGB", np.repeat(np.array(levels, np.uint8), 3).tobytes())
    _unpack_as(image, "P", "P;4" if depth == 4 else "P")


def _read_planes(image: "Image.Image") -> None:
    """Let libtiff decode a TIFF with a plane per sample, as it does if the planes are compressed.

    Pillow takes the first letter of a mode such as RGB;16L for that of the first plane: it reads two bytes as two
    pixels, and L;I, whose white is 0, as L.
    """
    file = cast(Any, image)
    if not file.use_load_libtiff:
        # libtiff reads the true compression from the file.
        file.tag_v2[_COMPRESSION] = _LZW
        file._setup()  # noqa: SLF001  # the mode of the values that libtiff returns depends on many tags


def _keep_colors(image: "Image.Image") -> None:
    """Let Pillow return the colors of a TIFF as they are stored. If alpha is associated, it divides colors by alpha."""
    raw_mode: str = cast(Any, image).tile[0].args[0]
    if "a" in raw_mode:
        _unpack_as(image, image.mode.upper(), raw_mode.upper())
    if image.mode == "RGBA" and cast(Any, image).tag_v2.get(_PLANAR_CONFIGURATION) == _PLANES:
        # The fourth plane could be anything if the file does not say so, but Pillow divides by it.
        # It has no raw modes for more planes, and reads no more than those of the raw mode.
        _unpack_as(image, "RGBX", re.sub("[AX]+", "X", raw_mode.upper()))


def _unpack_as(image: "Image.Image", mode: str, raw_mode: str) -> None:
    """Set the mode of an image, and the mode of the values in its file."""
    file = cast(Any, image)
    file._mode = mode  # noqa: SLF001  # Pillow offers no other way before the pixels are decoded
    file.tile = [tile._replace(args=(raw_mode, *tile.args[1:])) for tile in file.tile]
