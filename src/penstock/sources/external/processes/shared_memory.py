"""Arrays in memory that a program shares with a worker process.

The memory is a file without a name: it ends with the last process that has it open, even if that one is killed.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.columns import Array
from penstock.errors import ArgumentTypeError
from penstock.sources.stream import Columns

_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class ArrayLocation:
    """Where an array lies in a segment.

    Args:
        dtype: of the array.
        shape: likewise.
        offset: its first byte.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int


class SharedSegments:
    """The memory of a worker: a segment holds the answer to one request, until it is returned."""

    def __init__(self) -> None:
        self._free: dict[int, mmap.mmap] = {}
        self._lent: dict[int, mmap.mmap] = {}
        self._count = 0

    def put(
        self, columns: Columns
    ) -> tuple[int, list[ArrayLocation | list[ArrayLocation]], tuple[int, ...], int | None]:
        """Copy columns into a segment.

        Returns:
            The number of the segment; where each column lies; the segments that will not be used again; where the
            segment is new, a file descriptor of it.

        Raises:
            ArgumentTypeError: the arrays hold objects.
        """
        places, size = _places(columns)
        dropped: tuple[int, ...] = ()
        descriptor: int | None = None
        number = next((number for number, memory in self._free.items() if len(memory) >= size), None)
        if number is None:
            dropped = tuple(self._free)[:1]
            for small in dropped:
                self._free.pop(small).close()
            number, self._count = self._count, self._count + 1
            descriptor, self._free[number] = _new(size + size // 4)
        memory = self._lent[number] = self._free.pop(number)
        for place, column in zip(places, columns, strict=True):
            pairs = zip(place, column, strict=True) if isinstance(place, list) else [(place, column)]
            for one, given in pairs:
                if isinstance(given, np.ndarray):
                    view(memory, one)[...] = given
                else:
                    np.stack(given, out=view(memory, one))
        return number, places, dropped, descriptor

    def recycle(self, numbers: tuple[int, ...]) -> None:
        """Use segments again."""
        for number in numbers:
            self._free[number] = self._lent.pop(number)


def view(memory: mmap.mmap, place: ArrayLocation) -> Array:
    """The array at a place, in the memory itself."""
    return np.ndarray(place.shape, place.dtype, memory, place.offset)


def opened(descriptor: int) -> mmap.mmap:
    """The memory behind a descriptor, which is closed."""
    try:
        return mmap.mmap(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def _places(columns: Columns) -> tuple[list[ArrayLocation | list[ArrayLocation]], int]:
    """Where columns are put: one array for each whose samples are alike; and how many bytes are needed."""
    end = 0

    def place(dtype: np.dtype[Any], shape: tuple[int, ...]) -> ArrayLocation:
        nonlocal end
        if dtype.hasobject:
            raise ArgumentTypeError("arrays of objects cannot pass from a worker process", given=dtype)
        made = ArrayLocation(dtype, shape, end)
        end = -(-(end + int(np.prod(shape)) * dtype.itemsize) // _ALIGNMENT) * _ALIGNMENT
        return made

    places: list[ArrayLocation | list[ArrayLocation]] = []
    for column in columns:
        if isinstance(column, np.ndarray):
            places.append(place(column.dtype, column.shape))
        elif len(kinds := {(sample.dtype, sample.shape) for sample in column}) == 1:
            ((dtype, shape),) = kinds
            places.append(place(dtype, (len(column), *shape)))
        else:
            places.append([place(sample.dtype, sample.shape) for sample in column])
    return places, end


def _new(size: int) -> tuple[int, mmap.mmap]:
    size = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("penstock")
    else:  # not Linux
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor, mmap.mmap(descriptor, size)
