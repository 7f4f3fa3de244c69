"""Decoding with Pillow: the formats that DALI reads, except the JPEGs that libjpeg-turbo decodes."""

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from penstock.core import Array
from penstock.image.codecs import pnm_values
from penstock.image.codecs.exif_orientation import TAG, UPRIGHT, read_orientation, swaps_axes
from penstock.image.codecs.image_header import MAX_PIXELS, ImageHeader, check_size
from penstock.image.codecs.output_channels import CHANNELS, as_output_type
from penstock.image.codecs.pillow_corrections import correct, has_gray_palette, unused_bits
from penstock.image.codecs.png_chunks import exif_chunk, without_metadata
from penstock.image.codecs.tiff_messages import collected_tiff_messages, with_tiff_messages
from penstock.image.codecs.undecodable_files import check_pixels, describe
from penstock.types import GRAY, DALIImageType

if TYPE_CHECKING:
    from PIL import Image

Result = TypeVar("Result")

# Pillow knows more formats. Some of them start other programs, so that decoding untrusted files would be a risk.
FORMATS = ("JPEG", "PNG", "BMP", "TIFF", "WEBP", "PPM", "JPEG2000")

# Per mode of Pillow, the mode with the stored number of 8-bit channels. All other modes are converted to RGB.
_MODES = {"1": "L", "L": "L", "LA": "LA", "La": "LA", "RGBA": "RGBA", "RGBX": "RGBX", "CMYK": "RGBA"}

# The two markers with which a JPEG 2000 codestream begins.
_CODESTREAM = b"\xff\x4f\xff\x51"

# Place and value of the color type of PNGs.
_PNG_COLOR_TYPE, _GRAY_WITH_ALPHA = 25, 4

# Prefix of the modes with more than 8 bits per pixel.
_WIDE = "I"

# The inverse of each EXIF orientation that is not its own inverse.
_INVERSE = {6: 8, 8: 6}


def read_header(data: Array, output_type: DALIImageType, adjust: bool) -> ImageHeader:
    """Read the header of an image of any format.

    Raises:
        ValueError: The bytes are not an image that can be decoded, or it has too many pixels.
    """
    return _retry_without_metadata(lambda file: _read_header(file, output_type, adjust), data)


def _read_header(data: Array, output_type: DALIImageType, adjust: bool) -> ImageHeader:
    image = open_image(data)
    width, height = image.size
    check_size(height, width)
    check_pixels(image, output_type)
    wide = image.mode.startswith(_WIDE)
    channels = CHANNELS[output_type] or (1 if wide else len(_plain_mode(image, data)))
    orientation = _orientation(image, data, adjust)
    if swaps_axes(orientation):
        height, width = width, height
    return ImageHeader(height, width, channels, np.dtype(np.uint16 if wide else np.uint8), orientation, 0)


def decode(data: Array, header: ImageHeader, output_type: DALIImageType) -> Array:
    """Decode the stored pixels, with the channels of the output type.

    Raises:
        ValueError: The data are damaged, or a color JPEG 2000 image has more than 8 bits per channel.
    """
    with collected_tiff_messages() as messages:
        try:
            pixels = _retry_without_metadata(lambda file: _pixels(file, output_type), data)
        except ValueError as error:
            raise ValueError(with_tiff_messages(str(error), messages)) from error
    pixels = as_output_type(np.atleast_3d(pixels), output_type)
    height, width = header.height, header.width
    if swaps_axes(header.orientation):
        height, width = width, height
    if pixels.shape != (height, width, header.channels) or pixels.dtype != header.dtype:
        raise ValueError("damaged: the pixels differ in shape or dtype from what the header announces")
    return pixels


def reduced(pixels: Array, reduce: int) -> Array:
    """Return pixels of 8 bits at 1/reduce of the height and width, rounded up: the means of squares."""
    from PIL import Image  # noqa: PLC0415

    if reduce == 1:
        return pixels
    image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else np.ascontiguousarray(pixels))
    return np.atleast_3d(np.asarray(image.reduce(reduce)))


def _retry_without_metadata(read: Callable[[Array], Result], data: Array) -> Result:
    """Read a file; again without the metadata of a PNG if Pillow refuses the file.

    Pillow limits the size of texts and color profiles, and checks their checksums.
    """
    try:
        return read(data)
    except ValueError:
        rest = without_metadata(data)
        if rest is None:
            raise
    return read(rest)


def _pixels(data: Array, output_type: DALIImageType) -> Array:
    image = open_image(data)
    if image.format == "JPEG2000":
        check_jpeg2000(data.tobytes())
    pixels = pnm_values.decode(image, data)
    if pixels is not None:
        return pixels
    try:
        if output_type is GRAY:
            image.draft("L", image.size)  # makes libjpeg return the stored luma channel, as DALI does
        image.load()
        if image.mode.startswith(_WIDE):
            return np.asarray(image).clip(0, 65535).astype(np.uint16) << np.uint16(unused_bits(image))
        mode = _plain_mode(image, data)
        # A PNG may declare one color transparent, and convert() would turn that into an alpha channel.
        image.info.pop("transparency", None)
        return np.asarray(image if image.mode == mode else image.convert(mode))
    except Exception as error:  # plug-ins of Pillow raise exceptions of any type for damaged files
        raise ValueError(f"damaged: {error}") from error


def open_image(data: Array) -> "Image.Image":
    """Open an image without decoding it, corrected where Pillow would decode other pixels than the format defines.

    Raises:
        ValueError: The bytes are not an image that can be decoded, or it has too many pixels.
    """
    # Importing Pillow takes a tenth of the time of importing Penstock, and JPEGs rarely need it.
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415

    try:
        image = Image.open(io.BytesIO(data.tobytes()), formats=FORMATS)
        correct(image, data)
    except Image.DecompressionBombError as error:
        raise ValueError(f"the header announces more than the {MAX_PIXELS} pixels that are decoded") from error
    except UnidentifiedImageError as error:
        problem = describe(data) or f"the bytes are not an image of a known format ({', '.join(FORMATS)})"
        raise ValueError(problem) from error
    except Exception as error:  # plug-ins of Pillow raise exceptions of any type for damaged files
        raise ValueError(f"damaged: {error}") from error
    return image


def check_jpeg2000(data: bytes) -> None:
    """Reject color images with more than 8 bits per channel.

    Pillow rounds their values to 8 bits without saturation, so that white becomes black.

    Raises:
        ValueError: The file is such an image.
    """
    size = data.find(_CODESTREAM)
    channels = int.from_bytes(data[size + 40 : size + 42])
    # The highest bit of a depth says whether the values are signed; the others are the number of bits minus one.
    depths = [(depth & 127) + 1 for depth in data[size + 42 : size + 42 + 3 * channels : 3]]
    if channels > 1 and max(depths, default=0) > 8:
        raise ValueError(
            f"color JPEG 2000 images with {max(depths)} bits per channel cannot be decoded: convert them to PNG or TIFF"
        )


def _plain_mode(image: "Image.Image", data: Array) -> str:
    """Return the mode with the stored number of 8-bit channels."""
    if has_gray_palette(image):
        return "L"
    # Pillow reads gray with alpha as RGBA if it has 16 bits.
    if image.format == "PNG" and data[_PNG_COLOR_TYPE] == _GRAY_WITH_ALPHA:
        return "LA"
    return _MODES.get(image.mode, "RGB")


def _orientation(image: "Image.Image", data: Array, adjust: bool) -> int:
    """Return the orientation to apply to the pixels that Pillow decodes."""
    # Pillow applies the orientation of TIFFs itself, so that it has to be undone if it is not wanted.
    if image.format == "TIFF":
        stated = _tiff_orientation(image)
        return UPRIGHT if adjust else _INVERSE.get(stated, stated)
    if not adjust:
        return UPRIGHT
    exif: object = image.info.get("exif")
    if exif is None and image.format == "PNG":
        exif = exif_chunk(data)  # Pillow reads EXIF data after the pixels only when it decodes them
    return read_orientation(exif) if isinstance(exif, bytes) else UPRIGHT


def _tiff_orientation(image: "Image.Image") -> int:
    try:
        stated = int(cast(Any, image).tag_v2.get(TAG, UPRIGHT))
    except Exception:  # noqa: BLE001  # a tag that cannot be read has no effect
        return UPRIGHT
    return stated if UPRIGHT <= stated <= 8 else UPRIGHT
