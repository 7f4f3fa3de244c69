"""Compiled loop that finds the frame headers of many JPEGs in one call without the GIL."""

import numpy as np

from penstock.core import Array
from penstock.native.c_function import CFunction
from penstock.native.compiled import Compiled, precompile

copy_bytes = CFunction("memcpy", "i8", "i8 i8 i8")

# Columns of the result.
FRAME, HEIGHT, WIDTH, COMPONENTS, SUBSAMPLED, EXIF, EXIF_END = COLUMNS = range(7)

# Bytes of the longest part of a header that the loop reads at once: a marker, a length, and the frame header.
WINDOW = 18


@precompile("i8[1] i8[1] u1[1] i8 i8[2]")
@Compiled
def scan_jpegs(addresses: Array, sizes: Array, window: Array, window_address: int, found: Array) -> None:
    """Find the frame headers and the EXIF data of JPEGs with one or three components.

    Args:
        addresses: int64 (files,), address of each file's bytes.
        sizes: int64 (files,), number of bytes of each file.
        window: uint8 (WINDOW,), memory for the part of a file that is read.
        window_address: Address of `window`.
        found: int64 (files, COLUMNS), zeros; receives the offset of the frame header, or 0 for any other file; what the
            frame header says; 1 if chroma has fewer rows; and start and end of the EXIF data, if there are any.
    """
    for n in range(addresses.shape[0]):
        start, size = addresses[n], sizes[n]
        frame = find_frame(start, size, window, window_address, found[n])
        if not 0 < frame <= size - WINDOW:
            continue
        copy_bytes(window_address, start + frame, WINDOW)
        found[n, HEIGHT], found[n, WIDTH], components = word(window, 5), word(window, 7), window[9]
        found[n, COMPONENTS] = components
        # The low four bits of the sampling factors are vertical.
        luma, blue, red = window[11] & 0xF, window[14] & 0xF, window[17] & 0xF
        if components == 3 and not luma == blue == red:
            found[n, SUBSAMPLED] = 1
        if found[n, HEIGHT] and found[n, WIDTH] and (components == 1 or components == 3):
            found[n, FRAME] = frame


@Compiled
def find_frame(start: int, size: int, window: Array, window_address: int, found: Array) -> int:
    """Return the offset of the last frame header before the scan; 0 for bytes that are no JPEG."""
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
            return frame
        end = place + 2 + word(window, 2)
        # Frame headers have a marker per coding process. Three others of this range are no frame headers.
        if 0xC0 <= marker <= 0xCF and marker != 0xC4 and marker != 0xC8 and marker != 0xCC:
            frame = place
        elif marker == 0xE1 and not found[EXIF] and min(end, size) - place >= 10 and is_exif(window):
            found[EXIF], found[EXIF_END] = place + 4, min(end, size)
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
