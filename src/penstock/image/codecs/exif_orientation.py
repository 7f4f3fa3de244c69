"""EXIF orientations: where they are written, and what they do to pixels and regions."""

from __future__ import annotations

import struct

from penstock.core.columns import Array
from penstock.image.codecs.image_header import Region

UPRIGHT = 1
TAG = 0x0112
PREFIX = b"Exif\0\0"
"""What stands before EXIF data in a JPEG, and sometimes elsewhere."""

_TURNS = {2: (1, 0, 0), 3: (1, 1, 0), 4: (0, 1, 0), 5: (0, 0, 1), 6: (1, 0, 1), 7: (1, 1, 1), 8: (0, 1, 1)}
"""Per EXIF orientation: whether to mirror columns and rows, and whether to exchange the two axes before that."""

_BYTE_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}


def read_orientation(exif: bytes) -> int:
    """The orientation that EXIF data state; upright where they state none, or nobody can read them."""
    exif = exif.removeprefix(PREFIX)
    order = _BYTE_ORDERS.get(exif[:4])
    if order is None:
        return UPRIGHT
    entry = struct.Struct(order + "HHIH")
    try:
        (directory,) = struct.unpack_from(order + "I", exif, 4)
        (count,) = struct.unpack_from(order + "H", exif, directory)
        for place in range(directory + 2, directory + 2 + 12 * count, 12):
            tag, _, _, value = entry.unpack_from(exif, place)
            if tag == TAG:
                return value if value in _TURNS else UPRIGHT
    except struct.error:  # the data end before the directory does
        pass
    return UPRIGHT


def swaps_axes(orientation: int) -> bool:
    """Whether what is stored as rows is delivered as columns."""
    return orientation >= 5  # the last four of eight


def apply_orientation(pixels: Array, orientation: int) -> Array:
    """A view of stored pixels as they are delivered."""
    if orientation == UPRIGHT:
        return pixels
    columns, rows, exchanged = _TURNS[orientation]
    upright = pixels.transpose(1, 0, 2) if exchanged else pixels
    return upright[:: -1 if rows else 1, :: -1 if columns else 1]


def stored_region(region: Region, height: int, width: int, orientation: int) -> Region:
    """Where a region of a delivered image of `height` x `width` is stored."""
    if orientation == UPRIGHT:
        return region
    columns, rows, exchanged = _TURNS[orientation]
    top, bottom, left, right = region
    if rows:
        top, bottom = height - bottom, height - top
    if columns:
        left, right = width - right, width - left
    return Region(left, right, top, bottom) if exchanged else Region(top, bottom, left, right)


def delivered_region(region: Region, height: int, width: int, orientation: int) -> Region:
    """Where a stored region lies in the delivered image of `height` x `width`."""
    if orientation == UPRIGHT:
        return region
    columns, rows, exchanged = _TURNS[orientation]
    top, bottom, left, right = region
    if exchanged:
        top, bottom, left, right = left, right, top, bottom
    if rows:
        top, bottom = height - bottom, height - top
    if columns:
        left, right = width - right, width - left
    return Region(top, bottom, left, right)
