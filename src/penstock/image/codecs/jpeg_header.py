"""JPEG headers: size, components, chroma subsampling and orientation, without decoding."""

import struct
from collections.abc import Sequence

import numpy as np

from penstock.core import Array
from penstock.image.codecs import jpeg_header_loop as loop
from penstock.image.codecs.exif_orientation import PREFIX, UPRIGHT, read_orientation, swaps_axes
from penstock.image.codecs.image_header import (
    ALL_ROWS,
    COLUMNS,
    FRAME,
    HEIGHT,
    ORIENTATION,
    WIDTH,
    ImageHeader,
    ImageHeaders,
    check_size,
)
from penstock.native.argument_block import address
from penstock.native.array_fields import FIELDS, copy_bytes, references
from penstock.types import ANY_DATA, GRAY, DALIImageType

_START = b"\xff\xd8\xff"
_FILL, _SCAN, _EXIF = 0xFF, 0xDA, 0xE1
# Markers of frame headers, one per coding process. The other three of this range are two tables and an extension.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Those of sequential and of progressive frames, with Huffman and with arithmetic coding. The others are lossless, which
# libjpeg-turbo does not reduce, or hierarchical.
_PROGRESSIVE = frozenset({0xC2, 0xCA})
_DECODED = _PROGRESSIVE | {0xC0, 0xC1, 0xC9}

# Markers without a length, which do not belong in a header. libjpeg passes over some of them.
_BARE = frozenset({0x00, 0x01, *range(0xD0, 0xDA)})

# A segment starts with 0xFF, its marker, and its length, which does not include these two bytes.
_segment = struct.Struct(">BBH")

# Height, width and number of components, from the sixth byte of a frame header; then the sampling factors of three
# components, whose low four bits are vertical. For a single component the last two read what follows the frame header.
_size = struct.Struct(">HHB xB xxB xxB")

_UINT8 = np.dtype(np.uint8)

# Files that are worth a call of the loop.
_MIN_FILES = 16

# Files for which reading the headers one by one takes 0.4 s longer, as long as compiling the loop.
_ENOUGH_FILES = 100_000


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
            if marker in _BARE or (frame and marker in _FRAMES):
                return None
            if marker in _FRAMES:
                frame = place
            elif marker == _EXIF and adjust and not orientation:
                segment = bytes(view[place + 4 : place + 2 + length])
                orientation = read_orientation(segment) if segment.startswith(PREFIX) else 0
            place += 2 + length
        height, width, components, luma, blue, red = _size.unpack_from(view, frame + 5)
        kind, in_scan = view[frame + 1], view[place + 4]
    except (struct.error, IndexError):  # the data end before the scan starts
        return None
    if not frame or kind not in _DECODED or not height or not width or components not in (1, 3):
        return None
    check_size(height, width)
    alike = components == 1 or luma & 0xF == blue & 0xF == red & 0xF
    channels = 1 if output_type is GRAY or (output_type is ANY_DATA and components == 1) else 3
    if swaps_axes(orientation):
        height, width = width, height
    below = ALL_ROWS if kind in _PROGRESSIVE or in_scan < components else 0 if alike else loop.ROWS_BELOW
    return ImageHeader(height, width, channels, _UINT8, orientation or UPRIGHT, frame, below)


def read_headers(files: Sequence[Array], output_type: DALIImageType, adjust: bool) -> ImageHeaders:
    """Read the headers of many files, with one call of a compiled loop.

    Returns:
        The result of `read_header` for each file, or zeros: for what is no JPEG with one or three components, for too
        many pixels, for bytes that are not contiguous, and for all files if the loop would take longer.
    """
    headers, exif = np.zeros((len(files), len(COLUMNS)), np.int64), np.zeros((len(files), 2), np.int64)
    if len(files) < _MIN_FILES or not (copy_bytes.exists and loop.scan_jpegs.pays_off(len(files), _ENOUGH_FILES)):
        return ImageHeaders(headers)
    fields, window = np.empty(FIELDS, np.int64), np.empty(loop.WINDOW, np.uint8)
    channels = 1 if output_type is GRAY else 0 if output_type is ANY_DATA else 3
    loop.scan_jpegs(references(files), channels, fields, address(fields), window, address(window), headers, exif)
    for row in np.flatnonzero(exif[:, 1] * headers[:, FRAME]).tolist() if adjust else ():
        start, stop = exif[row].tolist()
        headers[row, ORIENTATION] = orientation = read_orientation(files[row][start:stop].tobytes())
        if swaps_axes(orientation):
            headers[row, [HEIGHT, WIDTH]] = headers[row, [WIDTH, HEIGHT]]
    return ImageHeaders(headers)
