"""Compiled loop that finds the frame headers of many JPEGs in one call without the GIL."""

import numpy as np

from penstock.core import Array
from penstock.image.codecs.exif_orientation import UPRIGHT
from penstock.image.codecs.image_header import (
    ALL_ROWS,
    BELOW,
    BYTES,
    CHANNELS,
    FRAME,
    HEIGHT,
    MAX_PIXELS,
    ORIENTATION,
    WIDTH,
)
from penstock.native.array_fields import copy_bytes, locate_bytes
from penstock.native.compiled import Compiled, precompile

# Bytes of the longest part of a header that the loop reads at once: a marker, a length, and the frame header.
WINDOW = 18

# Rows below a pixel that the smooth upsampling of vertically subsampled chroma reads.
ROWS_BELOW = 2


@precompile("i8[1] i8 i8[1] i8 u1[1] i8 i8[2] i8[2]")
@Compiled
def scan_jpegs(
    files: Array,
    channels: int,
    fields: Array,
    fields_address: int,
    window: Array,
    window_address: int,
    headers: Array,
    exif: Array,
) -> None:
    """Find the frame headers and the EXIF data of JPEGs with one or three components.

    Args:
        files: int64 (files,), from `references` of the files' bytes.
        channels: Channels of the decoded images; 0 for the number of components.
        fields: int64 (FIELDS,), memory for fields of an array.
        fields_address: Address of `fields`.
        window: uint8 (WINDOW,), memory for the part of a file that is read.
        window_address: Address of `window`.
        headers: int64 (files, columns of `ImageHeaders`), zeros; receives the headers. Zeros are left for any other
            file, for too many pixels, and for bytes that are not consecutive.
        exif: int64 (files, 2), zeros; receives start and end of the EXIF data, if there are any.
    """
    for n in range(files.shape[0]):
        size = locate_bytes(files[n], fields, fields_address)
        start = fields[0]
        frame = find_frame(start, size, window, window_address, exif[n])
        if not 0 < frame <= size - WINDOW:
            continue
        in_scan = window[4]
        copy_bytes(window_address, start + frame, WINDOW)
        kind, height, width, components = window[1], word(window, 5), word(window, 7), window[9]
        progressive = kind == 0xC2 or kind == 0xCA
        if not (progressive or kind == 0xC0 or kind == 0xC1 or kind == 0xC9):
            continue
        if height * width == 0 or height * width > MAX_PIXELS or (components != 1 and components != 3):
            continue
        headers[n, HEIGHT], headers[n, WIDTH], headers[n, CHANNELS] = height, width, channels or components
        headers[n, BYTES], headers[n, ORIENTATION], headers[n, FRAME] = 1, UPRIGHT, frame
        # The low four bits of the sampling factors are vertical.
        luma, blue, red = window[11] & 0xF, window[14] & 0xF, window[17] & 0xF
        if progressive or in_scan < components:
            headers[n, BELOW] = ALL_ROWS
        elif components == 3 and not luma == blue == red:
            headers[n, BELOW] = ROWS_BELOW


@Compiled
def find_frame(start: int, size: int, window: Array, window_address: int, exif: Array) -> int:
    """Return the offset of the frame header before the scan; 0 for bytes that are no JPEG.

    It leaves the beginning of the scan in the window.
    """
    copy_bytes(window_address, start, min(3, size))
    if size < 3 or window[0] != 0xFF or window[1] != 0xD8 or window[2] != 0xFF:
        return 0
    place, frame = 2, 0
    # A segment starts with 0xFF, its marker, and its length, which does not include these two bytes.
    while place + 4 <= size:
        copy_bytes(window_address, start + place, min(WINDOW, size - place))
        marker = window[1]
        if window[0] != 0xFF:
            return 0
        if marker == 0xFF:  # any number of fill bytes may precede a marker
            place += 1
            continue
        if marker == 0xDA:  # the scan
            return frame if place + 4 < size else 0
        if marker < 0x02 or 0xD0 <= marker <= 0xD9:  # markers without a length, see `jpeg_header`
            return 0
        end = place + 2 + word(window, 2)
        # Frame headers have a marker per coding process. Three others of this range are no frame headers.
        if 0xC0 <= marker <= 0xCF and marker != 0xC4 and marker != 0xC8 and marker != 0xCC:
            if frame:
                return 0
            frame = place
        elif marker == 0xE1 and not exif[0] and min(end, size) - place >= 10 and is_exif(window):
            exif[0], exif[1] = place + 4, min(end, size)
        place = end
    return 0


@Compiled
def is_exif(window: Array) -> bool:
    """Return True if a segment begins with the prefix of EXIF data."""
    text = window[4] == 0x45 and window[5] == 0x78 and window[6] == 0x69 and window[7] == 0x66
    return text and window[8] == 0 and window[9] == 0


@Compiled
def word(window: Array, at: int) -> int:
    """Return a number of two bytes."""
    return (np.int64(window[at]) << 8) + window[at + 1]
