"""Rows of arrays that NumPy has mapped from a file, copied so that a file which is cut meanwhile is an error.

A process that touches a page which its file no longer has is killed by SIGBUS. Python cannot catch that, and no look at
the size of the file beforehand rules it out. So the rows are copied by a Linux system call that reports what it cannot
read. Where there is none, or a sandbox forbids it, the size is looked at before and after.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import math
import mmap
import os
import sys
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from penstock.core.columns import Array, Indices, RowSelection
from penstock.errors import SourceError

_PIECES = 1024
"""How many pieces of memory one call copies at most (IOV_MAX)."""

_PIECE = 2500
"""How many bytes are copied in the time that a piece costs by itself."""

_GROUP = 1 << 22
"""How many bytes are copied at once: also what NumPy copies between two looks at the size of the file."""


def as_memory_mapped(array: Array) -> MemoryMappedRows | None:
    """The rows of an array that NumPy has mapped, or of any view of it; None for another array."""
    whole: Any = None
    shown: Any = array
    while shown is not None and not isinstance(shown, mmap.mmap):
        whole = shown
        shown = shown.obj if isinstance(shown, memoryview) else getattr(shown, "base", None)
    if shown is None or not isinstance(whole, np.memmap):
        return None
    return MemoryMappedRows(array, cast("np.memmap[Any, Any]", whole), shown)


class MemoryMappedRows:
    """The rows of an array that is mapped from a file.

    Args:
        array: of any shape and strides, with one row per sample along its first axis.
        whole: the array that was mapped, of which the first one is a view.
        memory: the map.

    Attributes:
        place: the file, and where in it the array begins; None where NumPy knows no name of it.
    """

    def __init__(self, array: Array, whole: np.memmap[Any, Any], memory: mmap.mmap) -> None:
        self._array, self._memory = array, memory
        first = array.ctypes.data
        begin = int(whole.offset + first - whole.ctypes.data)
        self.place = None if whole.filename is None else (os.fspath(whole.filename), begin)
        self._needed = begin + np.lib.array_utils.byte_bounds(array)[1] - first
        shape, strides = array.shape, array.strides
        axes = sorted(range(1, array.ndim), key=lambda axis: abs(strides[axis]))

        def span(count: int) -> int:
            return array.itemsize + sum((shape[axis] - 1) * abs(strides[axis]) for axis in axes[:count])

        def cost(count: int) -> int:
            return math.prod(shape[axis] for axis in axes[count:]) * (_PIECE + span(count))

        # so many axes, those of the smallest strides, are copied in one piece with what lies between their elements
        count = min(range(len(axes), -1, -1), key=cost)
        self._piece = step = span(count)
        self._low = sum(min(0, (shape[axis] - 1) * strides[axis]) for axis in axes[:count])
        offsets: Indices = np.array([first + self._low])
        inside = list(strides)
        for axis in axes[count:]:
            numbers = np.arange(shape[axis], dtype=np.int64)
            offsets = np.add.outer(numbers * strides[axis], offsets).ravel()
            inside[axis], step = step, step * shape[axis]
        self._offsets, self._strides = offsets, (step, *inside[1:])
        self._straight = array[:1].flags.c_contiguous

    def copied(self, indices: Indices, out: Array | None = None) -> Array:
        """The rows at `indices` as an array of its own, in `out` where that is given.

        Raises:
            SourceError: the file has become shorter, or its disk fails.
        """
        rows = np.empty((len(indices), *self._array.shape[1:]), self._array.dtype) if out is None else out
        step = max(1, _GROUP // max(self._strides[0], 1))
        for start in range(0, len(indices) if rows.size else 0, step):
            part = slice(start, start + step)
            self._copy(indices[part], rows[part])
        self._check()  # a page that is kept in part has zeros behind the end of its file
        return rows

    def _copy(self, indices: Indices, rows: Array) -> None:
        array = self._array
        straight = self._straight and rows.flags.c_contiguous and rows.dtype == array.dtype
        starts = np.add.outer(indices * array.strides[0], self._offsets).ravel()
        memory = rows if straight else np.empty(len(starts) * self._piece, np.uint8)
        try:
            _copy_memory(starts, self._piece, memory)
        except OSError as error:
            self._check()
            if error.errno != errno.EFAULT:  # the system does not allow it
                RowSelection(array, indices).gather(rows)
                return
            raise SourceError(f"a part of {self._name} cannot be read", fix="look for errors of its disk") from None
        if memory is not rows:
            rows[...] = np.ndarray(rows.shape, array.dtype, memory, -self._low, self._strides)

    @property
    def _name(self) -> str:
        return "a mapped file" if self.place is None else repr(self.place[0])

    def _check(self) -> None:
        """Check that the file is as long as the array needs.

        Raises:
            SourceError: it has become shorter, or cannot be looked at.
        """
        try:
            size = self._memory.size()
        except OSError as error:
            raise SourceError(f"{self._name}, which is mapped, cannot be looked at", given=error) from error
        if size < self._needed:
            fix = "let files that are read be as they are: write another one, and rename it"
            raise SourceError(f"{self._name} became shorter while it was mapped", given=f"{size} bytes", fix=fix)


def _copy_memory(starts: Indices, length: int, into: Array) -> None:
    """Copy pieces of this process's memory, one after the other.

    Args:
        starts: the address of each.
        length: how many bytes each has.
        into: contiguous, as long as all of them.

    Raises:
        OSError: EFAULT if one of them cannot be read; another one if the system copies nothing in this way.
    """
    copy = _system_call()
    heads = np.flatnonzero(np.diff(starts, prepend=starts[0] - length - 1) != length)  # pieces that follow no other
    ends = np.append(heads[1:], len(starts)) * length
    begins = heads * length
    done = 0
    while done < into.nbytes:  # a call copies 2 GB at most
        piece = int(np.searchsorted(ends, done, side="right"))
        some = slice(piece, piece + _PIECES)
        there = np.stack([starts[heads[some]], ends[some] - begins[some]], axis=1)
        there[0] += [done - begins[piece], begins[piece] - done]
        here = np.array([into.ctypes.data + done, into.nbytes - done])
        copied = copy(os.getpid(), here.ctypes.data, 1, there.ctypes.data, len(there), 0)
        if copied <= 0:
            raise OSError(ctypes.get_errno(), "process_vm_readv")
        done += copied


@functools.cache
def _system_call() -> Callable[..., int]:
    """`process_vm_readv`.

    Raises:
        OSError: the system has none.
    """
    libc: Any = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" and sys.maxsize > 1 << 32 else None
    if not hasattr(libc, "process_vm_readv"):
        raise OSError(errno.ENOSYS, "process_vm_readv")
    call = libc.process_vm_readv
    memory, count = ctypes.c_void_p, ctypes.c_ulong
    call.argtypes, call.restype = (ctypes.c_int, memory, count, memory, count, count), ctypes.c_ssize_t
    return call
