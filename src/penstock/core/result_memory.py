"""Memory of large results, used again when they are gone."""

import sys
import threading

import numpy as np
from numpy.typing import NDArray

# Results of fewer bytes are cheap to allocate, and memory of more bytes in total is not kept.
_RECYCLED, _MAX_RECYCLED = 1 << 22, 1 << 28

# References to memory that nobody uses: in the list, in a variable, and the argument of `getrefcount`.
_UNUSED = 3


class ResultMemory:
    """Memory for large ragged results, which is used again when nothing refers to it.

    The operating system clears new pages. For the pixels of 256 photographs that takes a fourth of the time of decoding
    them, and all views of the memory keep it referenced, as arrays of JAX do that alias it.

    >>> memory = ResultMemory()
    >>> first = memory.take(1 << 23)
    >>> address, image = first.ctypes.data, first[5:9]
    >>> del first
    >>> memory.take(1 << 23).ctypes.data == address  # the image is in it
    False
    >>> del image
    >>> memory.take(1 << 23).ctypes.data == address
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[NDArray[np.uint8]] = []

    def take(self, size: int) -> NDArray[np.uint8]:
        """Return `size` uninitialized bytes."""
        if size < _RECYCLED:
            return np.empty(size, np.uint8)
        with self._lock:
            for memory in self._kept:
                if size <= memory.size <= 2 * size and sys.getrefcount(memory) <= _UNUSED:
                    return memory[:size]
            # Sizes of batches differ a little, so the memory has some room.
            memory = np.empty((size + size // 8) // 8 * 8, np.uint8)
            self._kept.append(memory)
            while sum(kept.size for kept in self._kept) > _MAX_RECYCLED:
                self._kept.pop(0)
            return memory[:size]


result_memory = ResultMemory()
