"""EXIF orientations: reading them, and applying them to pixels and regions."""

import struct

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array
from penstock.image.codecs.image_header import Region

UPRIGHT = 1
TAG = 0x0112
# Precedes EXIF data in the APP1 segment of a JPEG; some writers put it into other formats, too.
PREFIX = b"Exif\0\0"

# Per EXIF orientation: mirror the columns, mirror the rows, exchange the two axes before that.
_TURNS = {2: (1, 0, 0), 3: (1, 1, 0), 4: (0, 1, 0), 5: (0, 0, 1), 6: (1, 0, 1), 7: (1, 1, 1), 8: (0, 1, 1)}

# Per orientation, as an index: True if the rows are mirrored, and if the columns are.
_MIRRORS = np.array([_TURNS.get(orientation, (0, 0, 0))[1::-1] for orientation in range(9)], np.bool_)

# EXIF data are a TIFF file, whose first bytes state the byte order.
_BYTE_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}


def read_orientation(exif: bytes) -> int:
    """Return the orientation of EXIF data, or `UPRIGHT` if they have none or are damaged."""
    exif = exif.removeprefix(PREFIX)
    order = _BYTE_ORDERS.get(exif[:4])
    if order is None:
        return UPRIGHT
    entry = struct.Struct(order + "HHIH")
    try:
        (directory,) = struct.unpack_from(order + "I", exif, 4)
        (count,) = struct.unpack_from(order + "H", exif, directory)
        # An entry has 12 bytes: tag, type, count, and the value itself if it is as short as an orientation.
        for place in range(directory + 2, directory + 2 + 12 * count, 12):
            tag, _, _, value = entry.unpack_from(exif, place)
            if tag == TAG:
                return value if value in _TURNS else UPRIGHT
    except struct.error:
        # The data end before the directory does. Metadata never make an image undecodable.
        pass
    return UPRIGHT


def swaps_axes(orientation: int) -> bool:
    """Return True if stored rows are delivered as columns."""
    # EXIF numbers the four orientations that exchange the axes 5 to 8.
    return orientation >= 5


def mirrored_axes(orientations: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return, per image, True if the height of the delivered image runs against the stored axis; and the width."""
    height, width = _MIRRORS[orientations].T
    return height, width


def apply_orientation(pixels: Array, orientation: int) -> Array:
    """Return a view of stored pixels in the orientation in which they are delivered."""
    if orientation == UPRIGHT:
        return pixels
    columns, rows, exchanged = _TURNS[orientation]
    upright = pixels.transpose(1, 0, 2) if exchanged else pixels
    return upright[:: -1 if rows else 1, :: -1 if columns else 1]


def stored_region(region: Region, height: int, width: int, orientation: int) -> Region:
    """Return the stored region of a region of the delivered image, which has `height` x `width` pixels."""
    top, bottom, left, right = mirrored = _mirrored(region, height, width, orientation)
    return Region(left, right, top, bottom) if swaps_axes(orientation) else mirrored


def delivered_region(region: Region, height: int, width: int, orientation: int) -> Region:
    """Return the region of the delivered image, which has `height` x `width` pixels, of a stored region."""
    top, bottom, left, right = region
    exchanged = Region(left, right, top, bottom) if swaps_axes(orientation) else region
    return _mirrored(exchanged, height, width, orientation)


def _mirrored(region: Region, height: int, width: int, orientation: int) -> Region:
    """Mirror a region of an image of `height` x `width` pixels as an orientation does."""
    if orientation == UPRIGHT:
        return region
    columns, rows, _ = _TURNS[orientation]
    top, bottom, left, right = region
    if rows:
        top, bottom = height - bottom, height - top
    if columns:
        left, right = width - right, width - left
    return Region(top, bottom, left, right)
