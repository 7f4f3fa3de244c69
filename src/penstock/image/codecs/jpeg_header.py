"""JPEG headers: size, components, chroma subsampling and orientation, without decoding."""

import struct
from collections.abc import Sequence

import numpy as np

from penstock.core import Array
from penstock.image.codecs import jpeg_header_loop as loop
from penstock.image.codecs.exif_orientation import PREFIX, UPRIGHT, read_orientation, swaps_axes
from penstock.image.codecs.image_header import (
    BELOW,
    BYTES,
    CHANNELS,
    COLUMNS,
    FRAME,
    HEIGHT,
    MAX_PIXELS,
    ORIENTATION,
    WIDTH,
    ImageHeader,
    ImageHeaders,
    check_size,
)
from penstock.native.machine_code import address, addresses
from penstock.types import ANY_DATA, GRAY, DALIImageType

_START = b"\xff\xd8\xff"
_FILL, _SCAN, _EXIF = 0xFF, 0xDA, 0xE1
# Markers of frame headers, one per coding process. The other three of this range are two tables and an extension.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}

# A segment starts with 0xFF, its marker, and its length, which does not include these two bytes.
_segment = struct.Struct(">BBH")

# Height, width and number of components, from the sixth byte of a frame header; then the sampling factors of three
# components, whose low four bits are vertical. For a single component the last two read what follows the frame header.
_size = struct.Struct(">HHB xB xxB xxB")

_UINT8 = np.dtype(np.uint8)

# Files that are worth a call of the loop.
_MIN_FILES = 16

# Rows below a pixel that the smooth upsampling of vertically subsampled chroma reads.
_ROWS_BELOW = 2


def read_header(data: Array, output_type: DALIImageType, adjust: bool) -> ImageHeader | None:
    """Read the header of a JPEG with one or three components.

    Returns:
        None if the bytes are anything else.

    Raises:
        ValueError: The header announces too many pixels.
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
            if marker == _FILL:  # any number of fill bytes may precede a marker
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
    except struct.error:  # the data end before the scan starts
        return None
    if not frame or not height or not width or components not in (1, 3):
        return None
    check_size(height, width)
    alike = components == 1 or luma & 0xF == blue & 0xF == red & 0xF
    channels = 1 if output_type is GRAY or (output_type is ANY_DATA and components == 1) else 3
    if swaps_axes(orientation):
        height, width = width, height
    return ImageHeader(height, width, channels, _UINT8, orientation or UPRIGHT, frame, 0 if alike else _ROWS_BELOW)


def read_headers(files: Sequence[Array], output_type: DALIImageType, adjust: bool) -> ImageHeaders:
    """Read the headers of many files, with one call of a compiled loop.

    Returns:
        The result of `read_header` for each file, or zeros: for what is no JPEG with one or three components, for too
        many pixels, and for bytes that are not contiguous.
    """
    headers = np.zeros((len(files), len(COLUMNS)), np.int64)
    if len(files) < _MIN_FILES or not loop.copy_bytes.exists:
        return ImageHeaders(headers)
    # The loop reads consecutive bytes.
    sizes = np.array([data.size if data.strides == (1,) else 0 for data in files], np.int64)
    window, found = np.empty(loop.WINDOW, np.uint8), np.zeros((len(files), len(loop.COLUMNS)), np.int64)
    loop.scan_jpegs(addresses(files), sizes, window, address(window), found)
    height, width, components = found[:, loop.HEIGHT], found[:, loop.WIDTH], found[:, loop.COMPONENTS]
    headers[:, HEIGHT], headers[:, WIDTH], headers[:, FRAME] = height, width, found[:, loop.FRAME]
    headers[:, CHANNELS] = np.where((components == 1) if output_type is ANY_DATA else (output_type is GRAY), 1, 3)
    headers[:, BYTES], headers[:, ORIENTATION] = 1, UPRIGHT
    headers[:, BELOW] = _ROWS_BELOW * found[:, loop.SUBSAMPLED]
    headers[(found[:, loop.FRAME] == 0) | (height * width > MAX_PIXELS)] = 0
    turned = (found[:, loop.EXIF] > 0) & (headers[:, FRAME] > 0) & adjust
    for row in np.flatnonzero(turned).tolist():
        start, stop = found[row, [loop.EXIF, loop.EXIF_END]].tolist()
        headers[row, ORIENTATION] = orientation = read_orientation(files[row][start:stop].tobytes())
        if swaps_axes(orientation):
            headers[row, [HEIGHT, WIDTH]] = headers[row, [WIDTH, HEIGHT]]
    return ImageHeaders(headers)
