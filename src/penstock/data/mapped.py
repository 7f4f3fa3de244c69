"""Rows of arrays that show a file mapped to memory, copied so that a file which is cut meanwhile is an error.

A process that touches a page which its file has lost is ended by a signal (SIGBUS). Python cannot catch that, and no
look at the size of the file beforehand rules it out. So, on Linux, the kernel copies the rows, and reports what it
cannot read. Elsewhere, and where a sandbox forbids that call, the size is looked at before and after.
"""

from __future__ import annotations

import ctypes
import functools
import math
import mmap
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from penstock.data.order import Indices
from penstock.data.source import Array, Picked
from penstock.errors import SourceError

_PIECES = 1024
"""How many pieces of memory one call copies at most (IOV_MAX)."""

_SPARSE = 4
"""A row is copied in several blocks where one would have more than so many bytes for each that is wanted."""


def mapped_rows(array: Array) -> MappedRows | None:
    """The rows of an array that shows a mapped file; None for an array that is in memory."""
    shown: Any = _owner(array).base
    memory = shown.obj if isinstance(shown, memoryview) else shown
    try:
        return MappedRows(array, memory) if isinstance(memory, mmap.mmap) else None
    except OSError:  # memory without a file, which nobody can cut
        return None


def mapped_file(array: Array) -> tuple[str, int] | None:
    """The file whose bytes an array shows, and where in it the array begins; None where NumPy does not know it."""
    owner = _owner(array)
    if not isinstance(owner, np.memmap) or owner.filename is None:
        return None
    return str(owner.filename), int(owner.offset + array.ctypes.data - owner.ctypes.data)


def _owner(array: Array) -> Array:
    """The array that an array is a view of, at last."""
    while isinstance(array.base, np.ndarray):
        array = cast(Array, array.base)
    return array


class MappedRows:
    """The rows of an array that shows a mapped file.

    Args:
        array: of any shape and strides, with one row per sample along its first axis.
        memory: the map.
    """

    def __init__(self, array: Array, memory: mmap.mmap) -> None:
        self._array, self._memory, self._size = array, memory, _size(memory)
        axes = sorted(range(1, array.ndim), key=lambda axis: abs(array.strides[axis]))
        near, far = next((axes[:n], axes[n:]) for n in range(len(axes), -1, -1) if self._dense(axes[:n]))
        self._block = self._span(near)
        self._low = sum(min(0, (array.shape[axis] - 1) * array.strides[axis]) for axis in near)
        self._offsets: Indices = np.zeros(1, np.int64)
        strides, step = list(array.strides), self._block
        for axis in far:
            numbers = np.arange(array.shape[axis], dtype=np.int64)
            self._offsets = np.add.outer(numbers * array.strides[axis], self._offsets).ravel()
            strides[axis], step = step, step * array.shape[axis]
        self._strides = (step, *strides[1:])

    def _span(self, axes: Sequence[int]) -> int:
        """How many bytes there are from the first to the last element along some axes."""
        array = self._array
        return array.itemsize + sum((array.shape[axis] - 1) * abs(array.strides[axis]) for axis in axes)

    def _dense(self, axes: Sequence[int]) -> bool:
        """Whether the elements along some axes lie so close together that they are copied as one block."""
        array = self._array
        return self._span(axes) <= _SPARSE * array.itemsize * math.prod(array.shape[axis] for axis in axes)

    def copied(self, indices: Indices, out: Array | None = None) -> Array:
        """The rows at `indices` as an array of its own, in `out` where that is given.

        Raises:
            SourceError: the file has become shorter, or its disk fails.
        """
        array = self._array
        rows = np.empty((len(indices), *array.shape[1:]), array.dtype) if out is None else out
        if (copy := _kernel_copy()) is None:
            self._check()
            Picked(array, indices).copied(rows)
        elif rows.size:
            self._copy(copy, indices, rows)
        self._check()  # a page that is kept in part has zeros behind the end of its file
        return rows

    def _copy(self, copy: Callable[..., int], indices: Indices, rows: Array) -> None:
        array = self._array
        first = array.ctypes.data + self._low
        starts = np.add.outer(first + indices * array.strides[0], self._offsets).ravel()
        straight = array[:1].flags.c_contiguous and rows.flags.c_contiguous and rows.dtype == array.dtype
        memory = rows if straight else np.empty(len(starts) * self._block, np.uint8)
        if not _copied(copy, starts, self._block, memory):
            self._check()
            raise SourceError(f"a part of {self._name} cannot be read", fix="look for errors of its disk")
        if memory is not rows:
            rows[...] = np.ndarray(rows.shape, array.dtype, memory, -self._low, self._strides)

    @property
    def _name(self) -> str:
        return "a mapped file" if (file := mapped_file(self._array)) is None else repr(file[0])

    def _check(self) -> None:
        if (size := _size(self._memory)) < self._size:
            fix = "let files that are read be as they are: write another one, and rename it"
            raise SourceError(f"{self._name} became shorter while it was mapped", given=f"{size} bytes", fix=fix)


def _size(memory: mmap.mmap) -> int:
    """How long the file is that is mapped."""
    try:
        return memory.size()
    except ValueError:  # a map without the descriptor of its file (Python 3.13)
        return len(memory)


def _copied(copy: Callable[..., int], starts: Indices, length: int, into: Array) -> bool:
    """Copy pieces of this process's memory, one after the other; False if one of them cannot be read.

    Args:
        copy: `process_vm_readv`.
        starts: the address of each.
        length: how many bytes each has.
        into: contiguous, as long as all of them.
    """
    heads = np.flatnonzero(np.diff(starts, prepend=starts[0] - length - 1) != length)  # pieces that follow no other
    ends = np.append(heads[1:], len(starts)) * length
    begins = heads * length
    done = 0
    while done < into.nbytes:
        piece = int(np.searchsorted(ends, done, side="right"))
        some = slice(piece, piece + _PIECES)
        there = np.stack([starts[heads[some]], ends[some] - begins[some]], axis=1)
        there[0] += [done - begins[piece], begins[piece] - done]
        here = np.array([into.ctypes.data + done, into.nbytes - done])
        copied = copy(os.getpid(), here.ctypes.data, 1, there.ctypes.data, len(there), 0)
        if copied <= 0:
            return False
        done += copied
    return True


@functools.cache
def _kernel_copy() -> Callable[..., int] | None:
    """`process_vm_readv`, where there is one that may read the memory of its own process."""
    if sys.platform != "linux" or np.dtype(np.intp).itemsize != np.dtype(np.int64).itemsize:
        return None
    copy = getattr(ctypes.CDLL(None), "process_vm_readv", None)
    if copy is None:
        return None
    memory, count = ctypes.c_void_p, ctypes.c_ulong
    copy.argtypes, copy.restype = (ctypes.c_int, memory, count, memory, count, count), ctypes.c_ssize_t
    given, taken = np.arange(3, dtype=np.int64), np.zeros(3, np.int64)
    works = _copied(copy, np.array([given.ctypes.data]), given.nbytes, taken) and np.array_equal(given, taken)
    return copy if works else None
