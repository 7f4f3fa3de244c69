"""Scratch memory."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

_KEPT = 1 << 26
"""Scratch memory above this size is not held on to: one huge image would keep it taken for good."""


class ScratchMemory(threading.local):
    """Memory of one chain on one thread, used again for one group of rows after the other."""

    def __init__(self) -> None:
        self._memory: dict[int, NDArray[np.uint8]] = {}

    def take(self, number: int, size: int) -> NDArray[np.uint8]:
        """`size` bytes, uninitialised, valid until the same number is taken again."""
        size = -(-size // 8) * 8
        if size > _KEPT:
            return np.empty(size, np.uint8)
        memory = self._memory.get(number)
        if memory is None or memory.size < size:
            memory = self._memory[number] = np.empty(max(size, 2 * (0 if memory is None else memory.size)), np.uint8)
        return memory[:size]
