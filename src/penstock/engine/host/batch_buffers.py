"""Batch buffers: aligned memory that JAX on the CPU uses without a copy, recycled when it is unreachable.

On the CPU, JAX aliases aligned NumPy memory even if asked to copy. So a buffer is never written while anything can
reach it: an array, a view, a `jax.Array` that aliases it, a view of that. All of them keep one object alive, the owner
of the memory, and the memory is recycled when the owner is gone. A finalizer on the array would run too early: views
keep the memory alive, but not the array.

Recycling saves time: the operating system clears each new page when it is first written, which takes longer than
filling it.
"""

import ctypes
import math
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from penstock.core import Array

# XLA aliases NumPy memory whose address is a multiple of this, and copies other memory.
_ALIGNMENT = 64


class BatchBuffers:
    """Pool of memory for batches.

    Args:
        keep: Number of unused buffers of each size to keep.
        allocate: Returns new memory of a number of bytes, aligned to 64 bytes.

    >>> buffers = BatchBuffers(keep=1)
    >>> first = buffers.empty((2, 3), np.dtype("float32"))
    >>> address, view = first.ctypes.data, first[1:]
    >>> del first
    >>> buffers.empty((2, 3), np.dtype("float32")).ctypes.data == address  # the view can still see it
    False
    """

    def __init__(self, keep: int, allocate: Callable[[int], Array] | None = None) -> None:
        self._keep = keep
        self._allocate = allocate or aligned_memory
        self._free: dict[int, deque[Array]] = {}
        self._owners: dict[int, tuple[weakref.ref[Any], Array]] = {}

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an uninitialized array whose address is a multiple of 64."""
        size = math.prod(shape) * dtype.itemsize
        try:
            memory = self._free.setdefault(size, deque(maxlen=self._keep)).pop()
        except IndexError:
            memory = self._fresh(size)
        # Arrays made with `frombuffer`, views of them, and JAX arrays that alias them keep this object alive.
        owner = (ctypes.c_char * size).from_buffer(cast(Any, memory))
        number = id(owner)
        this = weakref.ref(self)  # a lent buffer must not keep the unused ones alive

        def reclaim(_: object) -> None:
            buffers = this()
            if buffers is not None:
                buffers._reclaim(number, size)  # noqa: SLF001  # same class

        self._owners[number] = (weakref.ref(owner, reclaim), memory)
        lent: Array = np.frombuffer(cast(Any, owner), dtype)
        return lent.reshape(shape)

    def release(self) -> None:
        """Free the unused buffers, and those in use when they become unreachable."""
        self._free.clear()

    def _fresh(self, size: int) -> Array:
        """Allocate a buffer, and free the unused ones of other sizes."""
        # Buffers change size when the scheduler begins to compute batches in pairs; the old size is not needed again.
        for other, unused in list(self._free.items()):
            if other != size:
                unused.clear()
        return self._allocate(size)

    def _reclaim(self, number: int, size: int) -> None:
        _, memory = self._owners.pop(number)
        # Uses no global of the module: when Python exits, they are already gone.
        if size in self._free:
            self._free[size].append(memory)


def aligned_memory(size: int) -> Array:
    """Return `size` uninitialized bytes at an address that is a multiple of 64."""
    # NumPy's own memory is aligned to 16 bytes only.
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size]
