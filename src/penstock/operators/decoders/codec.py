"""The bytes of image files to pixels: libjpeg-turbo for JPEG, Pillow for everything else."""

from __future__ import annotations

import io
from typing import Any, cast

import numpy as np
import simplejpeg
from PIL import Image, UnidentifiedImageError

from penstock.data.source import Array
from penstock.operators.axes import MAX_PIXELS
from penstock.types import ANY_DATA, BGR, GRAY, RGB, DALIImageType, YCbCr

CHANNELS: dict[DALIImageType, int | None] = {RGB: 3, BGR: 3, YCbCr: 3, GRAY: 1, ANY_DATA: None}
"""How many channels each output type has; None where the file decides."""

_JPEG, _EXIF = b"\xff\xd8\xff", b"Exif\0\0"
_HEAD = 1 << 16
"""EXIF data stand in one of the first segments, each of which holds at most 64 KiB."""

_ORIENTATION, _TIFF = 0x0112, "TIFF"
_TURNED = {2: (1, 0, 0), 3: (1, 1, 0), 4: (0, 1, 0), 5: (0, 0, 1), 6: (1, 0, 1), 7: (1, 1, 1), 8: (0, 1, 1)}
"""Per EXIF orientation: whether to mirror columns and rows, and whether to exchange the two axes before that."""

_UNDONE = {6: 8, 8: 6}
"""Per EXIF orientation the one that turns an image back; the others do that themselves."""


def decode(data: Array, output_type: DALIImageType, adjust: bool, fast: bool, memory: Array | None) -> Array:
    """An image as HWC: uint8, or uint16 where the file has 16 bits.

    Args:
        data: the file's bytes, uint8 of shape (n,).
        output_type: which channels.
        adjust: whether to turn it as its EXIF data say.
        fast: whether to use libjpeg's faster, less accurate transform.
        memory: uint8, where the pixels may be put; at least as large as they are.

    Raises:
        ValueError: the bytes are no image that can be decoded, or one of more than `MAX_PIXELS`, which its
            header says before any memory is taken.
    """
    if not data.size:
        raise ValueError("the file is empty")
    header = _jpeg_header(data)
    if header is None or header[2] not in ("Gray", "YCbCr", "RGB"):
        return _pillow(data, output_type, adjust)
    height, width, colours = header
    _check_size(height, width)
    grey = output_type == GRAY or (output_type == ANY_DATA and colours == "Gray")
    wanted = "GRAY" if grey else "BGR" if output_type == BGR else "RGB"
    shape = height, width, 1 if grey else 3
    turn = _jpeg_orientation(data) if adjust else 1
    try:
        pixels = simplejpeg.decode_jpeg(data, wanted, fastdct=fast, buffer=memory)
    except ValueError:  # a mere warning, perhaps, of bytes too many: Pillow knows which are worse
        return _pillow(data, output_type, adjust)
    if output_type == YCbCr:
        pixels = _ycbcr(pixels)
    return _turned(pixels, turn)


def peek(data: Array, adjust: bool) -> tuple[int, int, int]:
    """Height, width and channels of an image, from its header.

    Raises:
        ValueError: the bytes are no image.
    """
    header = _jpeg_header(data)
    if header is not None:
        height, width, colours = header
        channels = 1 if colours == "Gray" else 4 if colours in ("CMYK", "YCCK") else 3
        turn = _jpeg_orientation(data) if adjust else 1
    else:
        with _open(data) as image:
            (width, height), channels = image.size, len(_plain_mode(image))
            turn = _turn_left(image, adjust)
    return (width, height, channels) if turn in _TURNED and _TURNED[turn][2] else (height, width, channels)


def _jpeg_header(data: Array) -> tuple[int, int, str] | None:
    """Height, width and colour space, if this is a JPEG that libjpeg-turbo's simple interface understands."""
    if data[:3].tobytes() != _JPEG:
        return None
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data, strict=False)
    except (ValueError, KeyError):  # KeyError: an unusual subsampling
        return None
    return height, width, colours


def _check_size(height: int, width: int) -> None:
    if height * width > MAX_PIXELS:
        raise ValueError(f"the header announces {height} x {width} pixels, more than the {MAX_PIXELS} that are decoded")


def _open(data: Array) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data.tobytes()))
    except Image.DecompressionBombError as error:
        raise ValueError(f"the header announces more than the {MAX_PIXELS} pixels that are decoded") from error
    except UnidentifiedImageError as error:
        raise ValueError("the bytes are no image of a known format") from error
    except Exception as error:  # whatever a plug-in of Pillow stumbles on in a damaged file
        raise ValueError(f"damaged: {error}") from error


def _jpeg_orientation(data: Array) -> int:
    if _EXIF not in data[:_HEAD].tobytes():
        return 1
    try:
        return _orientation(_open(data))
    except ValueError:  # not for Pillow, though it is for libjpeg
        return 1


def _orientation(image: Image.Image) -> int:
    try:
        return int(cast(Any, image.getexif()).get(_ORIENTATION, 1))
    except Exception:  # noqa: BLE001  # EXIF data that nobody can read turn nothing
        return 1


def _turn_left(image: Image.Image, adjust: bool) -> int:
    """How what Pillow gives must still be turned: it turns TIFFs by itself, and forgets that when it loads them."""
    orientation = _orientation(image)
    if image.format == _TIFF:
        return 1 if adjust else _UNDONE.get(orientation, orientation)
    return orientation if adjust else 1


def _turned(pixels: Array, orientation: int) -> Array:
    if orientation not in _TURNED:
        return pixels
    columns, rows, exchanged = _TURNED[orientation]
    turned = pixels.transpose(1, 0, 2) if exchanged else pixels
    return turned[:: -1 if rows else 1, :: -1 if columns else 1]


def _plain_mode(image: Image.Image) -> str:
    """The mode, of those with 8 or 16 bits per channel, that holds what the image has."""
    mode = image.mode
    if mode.startswith(("I", "F")):
        return "I"
    if mode in ("1", "L"):
        return "L"
    return "RGBA" if "A" in mode or "transparency" in image.info else "RGB"


def _pillow(data: Array, output_type: DALIImageType, adjust: bool) -> Array:
    opened = _open(data)
    _check_size(opened.height, opened.width)
    if opened.mode == "F":
        raise ValueError("pixels that are floats are not decoded: nothing says which of them is white")
    tiff_turn = _turn_left(opened, adjust) if opened.format == _TIFF else 1
    try:
        if output_type == GRAY:
            opened.draft("L", opened.size)  # of a JPEG the luma channel that is stored
        opened.load()
        mode = _plain_mode(opened)
        if mode != "I":
            image = opened if opened.mode == mode else opened.convert(mode)
            pixels: Array = np.atleast_3d(np.asarray(image))
        else:
            pixels = np.atleast_3d(np.asarray(opened)).clip(0, 65535).astype(np.uint16)
    except Exception as error:  # whatever a plug-in of Pillow stumbles on in a damaged file
        raise ValueError(f"damaged: {error}") from error
    # asked of others only now: a PNG's EXIF data may stand behind its pixels
    turn = tiff_turn if opened.format == _TIFF else _turn_left(opened, adjust)
    return _turned(_channels(pixels, output_type), turn)


def _channels(pixels: Array, output_type: DALIImageType) -> Array:
    if output_type == ANY_DATA:
        return pixels
    if output_type == GRAY:
        return pixels if pixels.shape[2] == 1 else _luma(pixels)
    colours = np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels[..., :3]
    if output_type == YCbCr:
        return _ycbcr(colours)
    return colours[..., ::-1] if output_type == BGR else colours


def _luma(pixels: Array) -> Array:
    """The luma of RGB pixels, fractions cut off, as DALI's decoder has it."""
    weighed = pixels[..., :3].astype(np.uint32) @ np.array([299, 587, 114], np.uint32)
    return (weighed // 1000).astype(pixels.dtype)[..., None]


def _ycbcr(pixels: Array) -> Array:
    """RGB pixels as Y, Cb and Cr of ITU-R BT.601, studio range: 16..235 and 16..240."""
    scale = np.float32(np.iinfo(pixels.dtype).max) / np.float32(255)
    matrix = np.array([[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]], np.float32)
    result = pixels.astype(np.float32) @ (matrix.T / np.float32(255)) + np.array([16, 128, 128], np.float32) * scale
    return (result + np.float32(0.5)).astype(pixels.dtype)
