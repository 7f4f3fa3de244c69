"""Byte ranges of objects, and what a store returns for them."""

from enum import Enum
from typing import NamedTuple

from penstock.core.dataclass import dataclass


class ByteRange(NamedTuple):
    """Bytes of an object.

    Args:
        path: Path of the object.
        start: First byte.
        stop: Byte after the last one; None for the end of the object.
        etag: ETag that the object must have; "" if unknown.
        limited: True if the object is a sample, whose size `check_sample_size` limits.
    """

    path: str
    start: int = 0
    stop: int | None = None
    etag: str = ""
    limited: bool = False


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """Path, size in bytes and ETag of an object.

    Without an ETag, its modification time and size replace it; without both, the `size_tag`.
    """

    path: str
    size: int
    etag: str


_SIZE_ONLY = " bytes"


def size_tag(size: int) -> str:
    """Return the tag of an object about which the server tells its size only."""
    return f"{size}{_SIZE_ONLY}"


def identifies_content(tag: str) -> bool:
    """Return True if an object with the same tag has the same content."""
    return bool(tag) and not tag.endswith(_SIZE_ONLY)


class ReadCost(Enum):
    """Cost of reading a sample, beyond its bytes."""

    MEMORY = "memory"
    """Nothing."""
    FILE = "file"
    """Access to a local disk, or to pages that the operating system has mapped."""
    STORE = "object store"
    """A request to a store: a long wait, so many requests should be in flight at once."""
