"""What is asked of a store."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class ByteRange(NamedTuple):
    """Bytes of an object.

    Args:
        path: the object's.
        start: the first byte.
        stop: the byte after the last one; None for all that follow.
        etag: the ETag that the object must have; "" where it is not known.
        limited: whether the object is a sample, whose size has a limit.
    """

    path: str
    start: int = 0
    stop: int | None = None
    etag: str = ""
    limited: bool = False


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object: its path, its bytes and its ETag ("" where the store has none)."""

    path: str
    size: int
    etag: str


Answer = tuple[NDArray[np.uint8], str]
"""The bytes of an extent, uint8, and the object's ETag."""


class ReadCost(Enum):
    """What reading a sample costs, but for its bytes."""

    MEMORY = "memory"
    """Nothing."""
    FILE = "file"
    """A look at a local disk, or at pages that the operating system has mapped to memory."""
    STORE = "object store"
    """The answer of a store, which takes long, and comes no later where many are waited for."""
