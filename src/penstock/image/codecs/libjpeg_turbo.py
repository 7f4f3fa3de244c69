"""JPEGs by libjpeg-turbo, through simplejpeg: their headers, and their pixels down to a given row.

libjpeg stops after as many rows as the frame header states. Stating fewer saves the work below a region.
"""

from __future__ import annotations

import struct

import numpy as np
import simplejpeg

from penstock.core.columns import Array
from penstock.image.codecs.exif_orientation import PREFIX, UPRIGHT, read_orientation, swaps_axes
from penstock.image.codecs.image_header import ImageHeader, check_size
from penstock.image.codecs.output_channels import ycbcr
from penstock.image.kernels.scratch_memory import ScratchMemory
from penstock.types import ANY_DATA, BGR, GRAY, DALIImageType, YCbCr

_START, _END = b"\xff\xd8\xff", b"\xff\xd9"
_FILL, _SCAN, _EXIF = 0xFF, 0xDA, 0xE1
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The markers of frame headers, one per way of coding."""

_segment = struct.Struct(">BBH")
"""A segment begins with 0xFF, its marker, and its length without these two bytes."""

_size = struct.Struct(">HHB xB xxB xxB")
"""Height, width and number of components, from the sixth byte of a frame header on; of three components the sampling
factors, of which the low four bits count rows. Behind a single component lies what follows the frame header."""

_UINT8 = np.dtype(np.uint8)

_ROWS_BELOW = 2
"""How far the smooth upsampling of colours looks down, where they are stored with fewer rows."""

_WORTH = 1 << 12
"""How many pixels must be saved to be worth a copy of the file."""

_copies = ScratchMemory()


def read_header(data: Array, output_type: DALIImageType, adjust: bool) -> ImageHeader | None:
    """The header of a JPEG with one or three components; None if the bytes are anything else.

    Raises:
        ValueError: it announces too many pixels.
    """
    view = data.data
    if view[:3].tobytes() != _START:
        return None
    frame, orientation, place = 0, 0, 2
    try:
        while True:
            prefix, marker, length = _segment.unpack_from(view, place)
            if prefix != _FILL:
                return None
            if marker == _FILL:  # any number of these may precede a marker
                place += 1
                continue
            if marker == _SCAN:
                break
            if marker in _FRAMES:
                frame = place
            elif marker == _EXIF and adjust and not orientation:
                segment = bytes(view[place + 4 : place + 2 + length])
                orientation = read_orientation(segment) if segment.startswith(PREFIX) else 0
            place += 2 + length
        height, width, components, luma, blue, red = _size.unpack_from(view, frame + 5)
    except struct.error:  # the data end before the pixels begin
        return None
    if not frame or not height or not width or components not in (1, 3):
        return None
    check_size(height, width)
    alike = components == 1 or luma & 0xF == blue & 0xF == red & 0xF
    channels = 1 if output_type is GRAY or (output_type is ANY_DATA and components == 1) else 3
    if swaps_axes(orientation):
        height, width = width, height
    below, head = 0 if alike else _ROWS_BELOW, max(place + _segment.size, frame + 5 + _size.size)
    return ImageHeader(height, width, channels, _UINT8, orientation or UPRIGHT, frame, below, head)


def decode(
    data: Array,
    header: ImageHeader,
    output_type: DALIImageType,
    fast_idct: bool,
    memory: Array | None,
    bottom: int | None = None,
    reduce: int = 1,
    strict: bool = True,
) -> Array:
    """The pixels as they are stored, with the channels of the output type.

    Args:
        data: the bytes of the file.
        header: its header.
        output_type: the output type.
        fast_idct: whether to use libjpeg's faster, less accurate transform.
        memory: where the pixels, or those above `bottom`, may be written.
        bottom: the row, counted in the reduced image, at which to stop: one that `rows` gave. There may be more.
        reduce: 2, 4 or 8 for a half, a quarter or an eighth of the height and width, rounded up.
        strict: whether to refuse what libjpeg only warns of.

    Raises:
        ValueError: the data are damaged, which can mean as little as a superfluous byte.
    """
    space = "GRAY" if header.channels == 1 else "BGR" if output_type is BGR else "RGB"
    height, width = header.height, header.width
    if swaps_axes(header.orientation):
        height, width = width, height
    if bottom is not None and bottom * reduce < height:
        if data[-2:].tobytes() == _END:
            height, strict = bottom * reduce, False  # what is left over would be a reason to complain
            data = _with_height(data, header.frame, height)
        else:
            memory = None  # has room for the rows alone
    try:
        if reduce == 1:
            pixels = simplejpeg.decode_jpeg(data, space, fast_idct, buffer=memory, strict=strict)
        else:
            height, width = -(-height // reduce), -(-width // reduce)
            pixels = simplejpeg.decode_jpeg(
                data, space, fast_idct, min_height=height, min_width=width, buffer=memory, strict=strict
            )
    except KeyError as error:  # simplejpeg knows no name for the subsampling
        raise ValueError(f"unusual subsampling: {error}") from error
    if pixels.shape != (height, width, header.channels):
        raise ValueError(f"damaged: the header announces {(height, width)} pixels, and there are {pixels.shape[:2]}")
    return ycbcr(pixels) if output_type is YCbCr else pixels


def rows(bottom: int, height: int, width: int, reduce: int, below: int) -> int:
    """How many rows are decoded where those above `bottom` are needed, counted in the reduced image.

    Args:
        bottom: the row below the last one that is needed.
        height: of the reduced image.
        width: of the reduced image.
        reduce: 1, 2, 4 or 8.
        below: as the header has it.
    """
    fewer = bottom + below
    return fewer if (height - fewer) * width * reduce * reduce >= _WORTH else height


def _with_height(data: Array, frame: int, height: int) -> Array:
    """A copy of a JPEG whose frame header states another height, valid until the next one."""
    copy = _copies.take(0, data.size)[: data.size]
    copy[:] = data
    copy[frame + 5], copy[frame + 6] = height >> 8, height & 0xFF
    return copy
