"""Scratch memory of a thread."""

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.result_memory import result_memory

# Larger scratch memory is shared by all threads. If each kept that of its largest image, it would grow with their
# number.
_KEPT = 1 << 22


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
        if size > _KEPT:
            return result_memory.take(size)
        memory = self._memory.get(number)
        if memory is None or memory.size < size:
            # Doubling limits the number of reallocations if sizes grow slowly.
            twice = 0 if memory is None else min(2 * memory.size, _KEPT)
            memory = self._memory[number] = np.empty(max(size, twice), np.uint8)
        return memory[:size]
