"""The bytes of image files to pixels: libjpeg-turbo for JPEG, Pillow for everything else."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import simplejpeg
from PIL import Image, ImageOps, UnidentifiedImageError

from penstock.data.source import Array
from penstock.types import ANY_DATA, BGR, GRAY, RGB, DALIImageType

CHANNELS: dict[DALIImageType, int | None] = {RGB: 3, BGR: 3, GRAY: 1, ANY_DATA: None}
"""How many channels each output type has; None where the file decides."""

_JPEG, _EXIF = b"\xff\xd8\xff", b"Exif\0\0"
_HEAD = 1 << 16
"""EXIF data stand in one of the first segments, each of which holds at most 64 KiB."""


def decode(data: Array, output_type: DALIImageType, adjust: bool, fast: bool, out: Array | None) -> Array:
    """An image as uint8 HWC.

    Args:
        data: the file's bytes, uint8 of shape (n,).
        output_type: which channels.
        adjust: whether to turn it as its EXIF data say.
        fast: whether to use libjpeg's faster, less accurate transform.
        out: where it may be written, if it has that shape.

    Raises:
        ValueError: the bytes are no image that can be decoded.
    """
    if not data.size:
        raise ValueError("the file is empty")
    if data[:3].tobytes() != _JPEG or (adjust and _EXIF in data[:_HEAD].tobytes()):
        return _pillow(data, output_type, adjust)
    colours = "GRAY" if output_type == GRAY else "BGR" if output_type == BGR else "RGB"
    if output_type == ANY_DATA and simplejpeg.decode_jpeg_header(data)[2] == "Gray":
        colours = "GRAY"
    if out is None:
        return simplejpeg.decode_jpeg(data, colours, fastdct=fast)
    try:
        return _into(out, simplejpeg.decode_jpeg(data, colours, fastdct=fast, buffer=out))
    except ValueError:  # too large for `out`: whoever wants that shape says so, and sees the right one
        return simplejpeg.decode_jpeg(data, colours, fastdct=fast)


def _into(out: Array, decoded: Array) -> Array:
    """`out` where the image filled it; else the image, away from memory that belongs to the batch."""
    return out if decoded.shape == out.shape else decoded.copy()


def _pillow(data: Array, output_type: DALIImageType, adjust: bool) -> Array:
    try:
        opened = Image.open(io.BytesIO(data.tobytes()))
        image = ImageOps.exif_transpose(opened) if adjust else opened
        image.load()
    except UnidentifiedImageError as error:
        raise ValueError("the bytes are no image of a known format") from error
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(str(error)) from error
    if image.mode not in ("L", "RGB", "RGBA"):
        image = image.convert("RGBA" if "A" in image.mode or "transparency" in image.info else "RGB")
    pixels: np.ndarray[Any, np.dtype[np.uint8]] = np.atleast_3d(np.asarray(image))
    if output_type == ANY_DATA:
        return pixels
    if output_type == GRAY:
        return pixels if pixels.shape[2] == 1 else _luma(pixels)
    colours = np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels[..., :3]
    return np.ascontiguousarray(colours[..., ::-1] if output_type == BGR else colours)


def _luma(pixels: Array) -> Array:
    """The luma of RGB pixels, fractions cut off, as DALI's decoder has it."""
    weighed = pixels[..., :3].astype(np.uint32) @ np.array([299, 587, 114], np.uint32)
    return (weighed // 1000).astype(np.uint8)[..., None]
