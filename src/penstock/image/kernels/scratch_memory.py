"""Scratch memory of a thread."""

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.recycled_memory import RecycledMemory

# Bytes that a thread keeps per buffer. Larger scratch memory is shared by all threads: if each kept that of its largest
# image, it would grow with their number.
KEPT = 1 << 20

# It is gone soon, so it may be much larger than what is asked for. Many threads are rarely busy with large images at a
# time, so most of the memory is given back afterwards.
_shared = RecycledMemory(KEPT, spare=16, idle=8)


class ScratchMemory(threading.local):
    """Buffers of one operator chain on one thread, reused for each group of rows.

    Attributes:
        derived: What the chain keeps for later batches, such as views of the buffers, after the object that it was
            derived from.
    """

    def __init__(self) -> None:
        self._memory: dict[int, NDArray[np.uint8]] = {}
        self.derived: tuple[object, Any] = None, None

    def take(self, number: int, size: int) -> NDArray[np.uint8]:
        """Return `size` uninitialized bytes, valid until the same buffer number is taken again."""
        # A multiple of 8 bytes, so that views of any dtype fit.
        size = -(-size // 8) * 8
        if size > KEPT:
            return _shared.take(size)
        memory = self._memory.get(number)
        if memory is None or memory.size < size:
            # Some room limits the number of reallocations if sizes grow slowly. Each thread has it, so it is not much.
            memory = self._memory[number] = np.empty(size + size // 64 * 8, np.uint8)
        return memory[:size]
