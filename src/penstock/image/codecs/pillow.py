"""All that is no plain JPEG, by Pillow: the formats that DALI reads, and no other that Pillow knows."""

from __future__ import annotations

import io
import struct
from typing import Any, cast

import numpy as np
from PIL import Image, UnidentifiedImageError

from penstock.core.columns import Array
from penstock.image.codecs.exif_orientation import TAG, UPRIGHT, read_orientation, swaps_axes
from penstock.image.codecs.image_header import MAX_PIXELS, ImageHeader, check_size
from penstock.image.codecs.output_channels import CHANNELS, as_output_type
from penstock.types import GRAY, DALIImageType

FORMATS = ("JPEG", "PNG", "BMP", "TIFF", "WEBP", "PPM", "JPEG2000")
"""The formats that are read. Pillow would read more, some of them by starting other programs."""

_MODES = {"1": "L", "L": "L", "LA": "LA", "La": "LA", "RGBA": "RGBA", "CMYK": "RGBA"}
"""Per mode of Pillow's the one that has as many channels of 8 bits as are stored, if it is not RGB."""

_WIDE = "I"
"""How the modes with more than 8 bits begin."""

_UNDONE = {6: 8, 8: 6}
"""Per EXIF orientation the one that turns an image back; the others do that themselves."""


def read_header(data: Array, output_type: DALIImageType, adjust: bool) -> ImageHeader:
    """The header of an image of any format.

    Raises:
        ValueError: the bytes are no image that can be decoded, or one of too many pixels.
    """
    image = _open(data)
    width, height = image.size
    check_size(height, width)
    if image.mode == "F":
        raise ValueError("pixels that are floats are not decoded: nothing says which of them is white")
    wide = image.mode.startswith(_WIDE)
    channels = CHANNELS[output_type] or (1 if wide else len(_plain_mode(image)))
    orientation = _orientation(image, data, adjust)
    if swaps_axes(orientation):
        height, width = width, height
    return ImageHeader(height, width, channels, np.dtype(np.uint16 if wide else np.uint8), orientation, 0)


def decode(data: Array, header: ImageHeader, output_type: DALIImageType) -> Array:
    """The pixels as they are stored, with the channels of the output type.

    Raises:
        ValueError: the data are damaged.
    """
    image = _open(data)
    try:
        if output_type is GRAY:
            image.draft("L", image.size)  # of a JPEG the luma channel that is stored
        image.load()
        if image.mode.startswith(_WIDE):
            pixels: Array = np.asarray(image).clip(0, 65535).astype(np.uint16)
        else:
            mode = _plain_mode(image)
            image.info.pop("transparency", None)  # alpha is what is stored as alpha
            pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    except Exception as error:  # whatever a plug-in of Pillow stumbles on in a damaged file
        raise ValueError(f"damaged: {error}") from error
    pixels = as_output_type(np.atleast_3d(pixels), output_type)
    height, width = header.height, header.width
    if swaps_axes(header.orientation):
        height, width = width, height
    if pixels.shape != (height, width, header.channels) or pixels.dtype != header.dtype:
        raise ValueError("damaged: the pixels are not what the header announces")
    return pixels


def _open(data: Array) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data.tobytes()), formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise ValueError(f"the header announces more than the {MAX_PIXELS} pixels that are decoded") from error
    except UnidentifiedImageError as error:
        raise ValueError(f"the bytes are no image of a known format ({', '.join(FORMATS)})") from error
    except Exception as error:  # whatever a plug-in of Pillow stumbles on in a damaged file
        raise ValueError(f"damaged: {error}") from error


def _plain_mode(image: Image.Image) -> str:
    return _MODES.get(image.mode, "RGB")


def _orientation(image: Image.Image, data: Array, adjust: bool) -> int:
    """How what Pillow decodes must still be turned: it turns TIFFs by itself."""
    if image.format == "TIFF":
        stated = _tiff_orientation(image)
        return UPRIGHT if adjust else _UNDONE.get(stated, stated)
    if not adjust:
        return UPRIGHT
    exif: object = image.info.get("exif")
    if exif is None and image.format == "PNG":
        exif = _late_exif(data)
    return read_orientation(exif) if isinstance(exif, bytes) else UPRIGHT


def _tiff_orientation(image: Image.Image) -> int:
    try:
        stated = int(cast(Any, image).tag_v2.get(TAG, UPRIGHT))
    except Exception:  # noqa: BLE001  # what nobody can read turns nothing
        return UPRIGHT
    return stated if UPRIGHT <= stated <= 8 else UPRIGHT


def _late_exif(data: Array) -> bytes | None:
    """The EXIF data of a PNG that come after its pixels, where Pillow finds them only when it decodes."""
    view, place = data.data, 8
    try:
        while True:
            length, kind = struct.unpack_from(">I4s", view, place)
            if kind == b"eXIf":
                return bytes(view[place + 8 : place + 8 + length])
            place += 12 + length
    except struct.error:  # the end
        return None
