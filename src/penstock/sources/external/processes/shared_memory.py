"""Arrays in memory shared between a program and a worker process.

The memory is an anonymous file. It is freed with the last process that has it open, even if that process is killed.
"""

import errno
import mmap
import os
import pickle
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.errors import ArgumentTypeError, ResourceError
from penstock.sources.stream import Columns

try:
    import resource
except ImportError:  # only Unix has it
    resource = None

# A cache line. It also suits the widest vector instructions, so loops over the arrays need no unaligned start.
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class ArrayLocation:
    """Location of an array in a segment.

    Args:
        dtype: Dtype of the array.
        shape: Shape of the array.
        offset: First byte in the segment.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int


class SharedSegments:
    """Shared memory of a worker. A segment holds the response to one request until it is returned."""

    def __init__(self) -> None:
        self._free: dict[int, mmap.mmap] = {}
        self._in_use: dict[int, mmap.mmap] = {}
        # Segments that the parent does not know to be dropped.
        self._dropped: list[int] = []
        self._count = 0

    def put(
        self, columns: Columns
    ) -> tuple[int, list[ArrayLocation | list[ArrayLocation]], tuple[int, ...], int | None]:
        """Copy columns into a segment.

        Returns:
            The number of the segment; the location of each column; the segments that are dropped; and a file descriptor
            if the segment is new, otherwise None.

        Raises:
            ArgumentTypeError: The arrays contain objects.
            ResourceError: The system refuses memory or a file descriptor.
        """
        places, size = _places(columns)
        descriptor: int | None = None
        number = next((number for number, memory in self._free.items() if len(memory) >= size), None)
        if number is None:
            # No free segment is large enough. A smaller one is replaced, so the number of segments stays that of the
            # batches in use.
            for small in tuple(self._free)[:1]:
                self._free.pop(small).close()
                self._dropped.append(small)
            # A quarter more, so that slightly larger batches of varying shapes fit the same segment.
            descriptor, memory = new_memory(size + size // 4)
            number, self._count = self._count, self._count + 1
            self._free[number] = memory
        memory = self._in_use[number] = self._free.pop(number)
        for place, column in zip(places, columns, strict=True):
            pairs = zip(place, column, strict=True) if isinstance(place, list) else [(place, column)]
            for one, value in pairs:
                if isinstance(value, np.ndarray):
                    view(memory, one)[...] = value
                else:
                    np.stack(value, out=view(memory, one))
        dropped, self._dropped = tuple(self._dropped), []
        return number, places, dropped, descriptor

    def recycle(self, numbers: tuple[int, ...]) -> None:
        """Reuse segments that the parent has returned."""
        for number in numbers:
            self._free[number] = self._in_use.pop(number)


def view(memory: mmap.mmap, place: ArrayLocation) -> Array:
    """Return the array at a location, without a copy."""
    return np.ndarray(place.shape, place.dtype, memory, place.offset)


def unpickled(payload: bytes, arrays: Sequence[ArrayLocation], memory: mmap.mmap | None) -> Any:
    """Load a pickle.

    Args:
        payload: The pickle.
        arrays: Locations of the arrays that are not part of it. They are read-only.
        memory: Memory of these arrays; None without any.
    """
    buffers = [] if memory is None else [view(memory, place).data.toreadonly() for place in arrays]
    return pickle.loads(payload, buffers=buffers)


def opened(descriptor: int) -> mmap.mmap:
    """Map the memory of a descriptor, and close the descriptor.

    Raises:
        ResourceError: The system refuses memory, or the duplicate of the descriptor that a map has.
    """
    size = 0
    try:
        size = os.fstat(descriptor).st_size
        return mmap.mmap(descriptor, size)
    except OSError as error:
        raise refused_memory(error, size) from error
    finally:
        os.close(descriptor)


def _places(columns: Columns) -> tuple[list[ArrayLocation | list[ArrayLocation]], int]:
    """Assign a location to each column (or to each sample, if shapes differ), and return the number of bytes."""
    end = 0

    def place(dtype: np.dtype[Any], shape: tuple[int, ...]) -> ArrayLocation:
        nonlocal end
        if dtype.hasobject:
            raise ArgumentTypeError("worker processes cannot return arrays of objects", given=dtype)
        location = ArrayLocation(dtype, shape, end)
        # The next array starts at a multiple of the alignment.
        end = -(-(end + int(np.prod(shape)) * dtype.itemsize) // _ALIGNMENT) * _ALIGNMENT
        return location

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


def new_memory(size: int) -> tuple[int, mmap.mmap]:
    """Return the file descriptor and the map of new memory of at least `size` bytes, which are zero.

    Raises:
        ResourceError: The system refuses memory or a file descriptor.
    """
    size = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    try:
        descriptor = _anonymous_file()
        try:
            os.ftruncate(descriptor, size)
            return descriptor, mmap.mmap(descriptor, size)
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise refused_memory(error, size) from error


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("penstock")
    with tempfile.TemporaryFile() as file:  # macOS has no memfd; a temporary file without a name has the same lifetime
        return os.dup(file.fileno())


def refused_memory(error: OSError, size: int | None = None) -> ResourceError:
    """Return the error for shared memory that the system refuses.

    Args:
        error: Error of the system.
        size: Number of bytes; None if unknown.
    """
    files = error.errno in (errno.EMFILE, errno.ENFILE)
    return ResourceError(
        "the system refuses memory that worker processes and the program share",
        given=error.strerror,
        expected=file_limit() if files or size is None else f"{size} free bytes",
        fix="a higher limit, `ulimit -n`; or fewer open files, iterators, pipelines and processes at the same time"
        if files
        else "hold fewer batches at the same time; or smaller batches, fewer processes, or more memory",
    )


def file_limit() -> str:
    """Describe the limit of open files for messages."""
    # An import at the limit would fail: it opens a file.
    number = f"{resource.getrlimit(resource.RLIMIT_NOFILE)[0]} " if resource is not None else ""
    return f"fewer than {number}open files in process {os.getpid()}"
