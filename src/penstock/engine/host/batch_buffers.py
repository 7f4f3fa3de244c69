"""Memory for batches: aligned, so that JAX on the CPU takes it as it is, and used again when nobody can see it.

A batch belongs to whoever holds it. JAX goes on using the memory that it was given, also when told that it may not, so
a buffer is never written while anything can still reach it: an array, a view, a `jax.Array` made of it, a view of that.
All of these keep alive one object, the owner of the memory; only when the owner is gone is the memory taken for another
batch. (A finalizer on an array would not do: views of it keep its memory alive, but not the array.)

Fresh memory is not free: the kernel must clear each page when it is first written, which takes longer than filling it.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections import deque
from typing import Any, cast

import numpy as np

from penstock.core.columns import Array

_ALIGNMENT = 64
"""XLA uses NumPy memory as it is when its address is a multiple of this, else copies it."""


class BatchBuffers:
    """Gives out memory for batches, and takes it back.

    Args:
        keep: how many unused buffers of each size to hold on to.

    >>> buffers = BatchBuffers(keep=1)
    >>> first = buffers.empty((2, 3), np.dtype("float32"))
    >>> address, view = first.ctypes.data, first[1:]
    >>> del first
    >>> buffers.empty((2, 3), np.dtype("float32")).ctypes.data == address  # the view can still see it
    False
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._free: dict[int, deque[Array]] = {}
        self._owners: dict[int, tuple[weakref.ref[Any], Array]] = {}

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An uninitialised array that begins at a multiple of 64 bytes."""
        size = math.prod(shape) * dtype.itemsize
        free = self._free.get(size)
        if free is None:
            free = self._free.setdefault(size, deque(maxlen=self._keep))
        try:
            memory = free.pop() if free else self._fresh(size)
        except IndexError:  # another thread took the last one
            memory = self._fresh(size)
        owner = (ctypes.c_char * size).from_buffer(cast(Any, memory))
        number = id(owner)
        this = weakref.ref(self)  # what is lent out does not keep the rest

        def reclaim(_: object) -> None:
            buffers = this()
            if buffers is not None:
                buffers._reclaim(number, size)  # noqa: SLF001  # its own, by a weak reference

        self._owners[number] = (weakref.ref(owner, reclaim), memory)
        lent: Array = np.frombuffer(cast(Any, owner), dtype)
        return lent.reshape(shape)

    def _fresh(self, size: int) -> Array:
        """More memory. What is unused of other sizes is given back: what comes in pairs now came alone before."""
        for other, unused in list(self._free.items()):
            if other != size:
                unused.clear()
        return _aligned(size)

    def _reclaim(self, number: int, size: int) -> None:
        _, memory = self._owners.pop(number)
        self._free[size].append(memory)  # no name of the module is used: at Python's exit they are gone


def _aligned(size: int) -> Array:
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size]
