"""Batch buffers in memory that this process shares with its workers.

A segment of shared memory takes two file descriptors here and one in each worker: Python's maps keep a duplicate. Many
processes may have only 1,024, so a segment holds many buffers, and its size grows with the memory in use. A program
that holds every batch of a data set then needs a few dozen segments.
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from penstock.core import Array
from penstock.engine.host.process_task import SlotLocation
from penstock.errors import InternalError
from penstock.sources.external.processes.shared_memory import ArrayLocation, new_memory

# Bytes of the smallest segment. Only pages that were written to take memory.
_SMALLEST = 64 << 20

# A new segment has this part of the bytes in use, so 40 segments hold about a terabyte.
_PART = 4


@dataclass(frozen=True, slots=True)
class _Segment:
    """Segment of shared memory. The buffers in it keep it alive.

    Args:
        memory: Its memory.
        address: Its first byte.
        size: Its number of bytes.
    """

    memory: weakref.ref[mmap.mmap]
    address: int
    size: int


class SharedBuffers:
    """Memory of batches that this process and its workers share. Thread-safe.

    Segments are numbered. The memory of a buffer is free once nothing reaches it, that of its segment once nothing
    reaches any of its buffers.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The newest segment is the last.
        self._segments: dict[int, _Segment] = {}
        # File descriptors of the segments that are in use. Finalizers must not take the lock, and `dict.pop` is atomic.
        self._descriptors: dict[int, int] = {}
        self._count = 0
        # First byte of the newest segment that was never in use.
        self._end = 0
        weakref.finalize(self, _close_all, self._descriptors)

    def empty(self, size: int) -> Array:
        """Return an uninitialized array of bytes in shared memory, aligned to a page.

        Raises:
            ResourceError: The system refuses memory or file descriptors.
        """
        length = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        with self._lock:
            memory = self._room(length)
            begin, self._end = self._end, self._end + length
        buffer: Array = np.frombuffer(memory, np.uint8, size, begin)
        # Views of the buffer keep it alive.
        weakref.finalize(buffer, _free, memory, begin, length, os.getpid()).atexit = False
        return buffer

    def locate(self, array: Array) -> SlotLocation:
        """Return the segment that holds an array, and its location there."""
        first = array.ctypes.data
        with self._lock:
            self._collect()
            for number, segment in self._segments.items():
                offset = first - segment.address
                if offset >= 0 and offset + array.nbytes <= segment.size:
                    return SlotLocation(number, ArrayLocation(array.dtype, array.shape, offset))
        raise InternalError("a slot is not in shared memory")

    def descriptor(self, number: int) -> int:
        """Return the file descriptor of a segment."""
        return self._descriptors[number]

    def freed(self, numbers: Collection[int]) -> set[int]:
        """Return those of some segments that do not exist any more."""
        return {number for number in numbers if number not in self._descriptors}

    def _room(self, length: int) -> mmap.mmap:
        """Return the memory of the newest segment; of a new one if it has less than `length` bytes left."""
        self._collect()
        newest = self._segments.get(self._count)
        if newest is not None and self._end + length <= newest.size:
            memory = newest.memory()
            if memory is not None:
                return memory
        used = sum(segment.size for segment in self._segments.values())
        size = max(length, _SMALLEST, used // _PART)
        descriptor, memory = new_memory(size)
        self._count, self._end = self._count + 1, 0
        self._segments[self._count] = _Segment(weakref.ref(memory), np.frombuffer(memory, np.uint8).ctypes.data, size)
        self._descriptors[self._count] = descriptor
        weakref.finalize(memory, _close, self._descriptors, self._count).atexit = False
        return memory

    def _collect(self) -> None:
        for number in [number for number in self._segments if number not in self._descriptors]:
            del self._segments[number]


def _free(memory: mmap.mmap, begin: int, length: int, owner: int) -> None:
    """Free the pages of a buffer in a segment whose other buffers are in use."""
    # A fork of this process drops its arrays, too, and the pages are those of both processes.
    if hasattr(mmap, "MADV_REMOVE") and os.getpid() == owner:
        with suppress(OSError):  # the pages are then freed with the segment
            memory.madvise(mmap.MADV_REMOVE, begin, length)


def _close(descriptors: dict[int, int], number: int) -> None:
    descriptor = descriptors.pop(number, None)
    if descriptor is not None:
        os.close(descriptor)


def _close_all(descriptors: dict[int, int]) -> None:
    for number in list(descriptors):
        _close(descriptors, number)
