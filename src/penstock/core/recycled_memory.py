"""Large pieces of memory, used again when they are gone."""

import sys
import threading

import numpy as np
from numpy.typing import NDArray

# Pieces of more bytes in total are not kept.
_MAX_KEPT = 1 << 28

# References to memory that nobody uses: in the list, in a variable, and the argument of `getrefcount`.
_UNUSED = 3


class RecycledMemory:
    """Large pieces of memory, each used again when nothing refers to it.

    The operating system clears new pages. For the pixels of 256 photographs that takes a fourth of the time of decoding
    them, and all views of the memory keep it referenced, as arrays of JAX do that alias it.

    Args:
        least: Bytes of the smallest piece that is kept. Smaller ones are cheap to allocate.
        spare: The most that a piece may be larger than what is asked for, as a factor.

    Example:
        >>> memory = RecycledMemory(1 << 22, spare=2)
        >>> first = memory.take(1 << 23)
        >>> address, image = first.ctypes.data, first[5:9]
        >>> del first
        >>> memory.take(1 << 23).ctypes.data == address  # the image is in it
        False
        >>> del image
        >>> memory.take(1 << 23).ctypes.data == address
        True
    """

    def __init__(self, least: int, spare: int) -> None:
        self._least, self._spare = least, spare
        self._lock = threading.Lock()
        self._kept: list[NDArray[np.uint8]] = []

    def take(self, size: int) -> NDArray[np.uint8]:
        """Return `size` uninitialized bytes."""
        if size < self._least:
            return np.empty(size, np.uint8)
        with self._lock:
            replaced = None
            for number in range(len(self._kept)):  # `enumerate` would hold a reference
                memory = self._kept[number]
                if sys.getrefcount(memory) > _UNUSED or memory.size > self._spare * size:
                    continue
                if memory.size >= size:
                    return memory[:size]
                replaced = number
            # What a larger piece can stand for is not needed any more.
            if replaced is not None and size <= self._spare * self._kept[replaced].size:
                del self._kept[replaced]
            # Sizes of batches differ a little, so the memory has some room.
            memory = np.empty((size + size // 8) // 8 * 8, np.uint8)
            self._kept.append(memory)
            while sum(kept.size for kept in self._kept) > _MAX_KEPT:
                self._kept.pop(0)
            return memory[:size]


# For results and the contents of files, which may keep their memory for long.
result_memory = RecycledMemory(1 << 22, spare=2)
