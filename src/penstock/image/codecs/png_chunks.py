"""Chunks of PNG files."""

import struct

import numpy as np

from penstock.core import Array

_SIGNATURE = b"\x89PNG\r\n\x1a\n"

# Chunks that determine the pixels, also those of animations, and the EXIF data.
_ESSENTIAL = frozenset((b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND", b"acTL", b"fcTL", b"fdAT", b"eXIf"))

# Each chunk has the length of its content, its type, the content and a checksum.
_head = struct.Struct(">I4s")


def exif_chunk(data: Array) -> bytes | None:
    """Return the EXIF data of a PNG."""
    view, place = data.data, len(_SIGNATURE)
    try:
        while True:
            length, kind = _head.unpack_from(view, place)
            if kind == b"eXIf":
                return bytes(view[place + 8 : place + 8 + length])
            place += 12 + length
    except struct.error:  # end of the file
        return None


def without_metadata(data: Array) -> Array | None:
    """Return a PNG without texts, color profiles and the like; None for other files, and for PNGs that have none."""
    file = data.tobytes()
    if not file.startswith(_SIGNATURE):
        return None
    parts, place = [_SIGNATURE], len(_SIGNATURE)
    while place + _head.size <= len(file):
        length, kind = _head.unpack_from(file, place)
        if kind in _ESSENTIAL:
            parts.append(file[place : place + 12 + length])
        place += 12 + length
    result = b"".join(parts)
    return np.frombuffer(result, np.uint8) if len(result) < len(file) else None
