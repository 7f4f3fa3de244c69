"""Compiled loops that read many files, or many ranges of a file, in one call without the GIL."""

import functools
import sys

from penstock.core import Array
from penstock.native.c_function import CFunction
from penstock.native.compiled import Compiled, precompile

open_path = CFunction("open", "i4", "i8 i4")
file_status = CFunction("statx", "i4", "i4 i8 i4 u4 i8")
read_bytes = CFunction("read", "i8", "i4 i8 i8")
read_at = CFunction("pread", "i8", "i4 i8 i8 i8")
close_file = CFunction("close", "i4", "i4")
advise = CFunction("posix_fadvise", "i4", "i4 i8 i8 i4")

# Words of the structure that `statx` writes. It is the same on all processors, unlike that of `stat`.
STATUS_WORDS = 32

# Constants of Linux. O_NONBLOCK as in `local_bytes`. AT_EMPTY_PATH stands for the file itself.
_OPEN_FLAGS = 0x80000 | 0x800  # O_CLOEXEC, O_NONBLOCK; O_RDONLY is 0
_EMPTY_PATH = 0x1000
_TYPE_AND_SIZE = 0x201
_TYPE_BITS, _REGULAR = 0xF000, 0x8000

_WILL_NEED = 3  # POSIX_FADV_WILLNEED

_ALIGNMENT = 16

# In `places`, for a file that the loop cannot read, and for one that has not been read since the memory is full.
FAILED, UNREAD = -1, -2


@functools.cache
def is_supported() -> bool:
    """Return True if the system has the functions that the loops call, with the constants and types of 64-bit Linux."""
    if sys.platform != "linux" or sys.byteorder != "little" or sys.maxsize < 2**32:
        return False
    return all(function.exists for function in (open_path, file_status, read_bytes, read_at, close_file, advise))


@precompile("u1[1] u1[2] u1[1] i8 i8[1] i8 i8 i8 i8 i8[2]")
@Compiled
def read_files(
    root: Array,
    names: Array,
    path: Array,
    path_address: int,
    status: Array,
    status_address: int,
    address: int,
    capacity: int,
    limit: int,
    places: Array,
) -> None:
    """Read files one after the other until the memory is full.

    Args:
        root: uint8, prefix of relative names.
        names: uint8 (files, bytes), names filled up with zeros.
        path: uint8, memory for the longest path, a zero, and an empty path.
        path_address: Address of `path`.
        status: int64 (STATUS_WORDS,), memory for the status of a file.
        status_address: Address of `status`.
        address: Address of the memory for the contents.
        capacity: Bytes of this memory.
        limit: Largest file to read.
        places: int64 (files, 2), receives the first byte and the end of each file; FAILED for one that must be read in
            another way, to get its error; UNREAD and the size for the first one that does not fit.
    """
    path[path.shape[0] - 1] = 0
    used = 0
    for n in range(names.shape[0]):
        places[n, 0], places[n, 1] = FAILED, FAILED
        if not write_path(root, names[n], path):
            continue
        file = open_path(path_address, _OPEN_FLAGS)
        if file < 0:
            continue
        start, done = (used + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT, 0
        # An empty path behind the path itself: the status is that of the open file.
        error = file_status(file, path_address + path.shape[0] - 1, _EMPTY_PATH, _TYPE_AND_SIZE, status_address)
        size = 0 if error or (status[3] >> 32) & _TYPE_BITS != _REGULAR else status[5]
        if start + size > capacity and size <= limit:
            places[n, 0], places[n, 1] = UNREAD, size
        elif 0 < size <= limit:
            more = 1
            while done < size and more > 0:
                more = read_bytes(file, address + start + done, size - done)
                done += max(more, 0)
            if done == size:
                places[n, 0], places[n, 1] = start, start + size
                used = start + size
        close_file(file)
        if places[n, 0] == UNREAD:
            break


@precompile("i8 i8[1] i8[1] i8[1] i8 i8[1]")
@Compiled
def read_ranges(file: int, starts: Array, sizes: Array, places: Array, address: int, failed: Array) -> None:
    """Read ranges of an open file.

    Args:
        file: Descriptor of the file.
        starts: int64 (ranges,), first byte of each range.
        sizes: int64 (ranges,), number of bytes of each range.
        places: int64 (ranges,), offset of each range in the memory.
        address: Address of the memory.
        failed: int64 (1,), receives 1 if a range cannot be read completely.
    """
    for n in range(starts.shape[0]):
        done, more = 0, 1
        while done < sizes[n] and more > 0:
            more = read_at(file, address + places[n] + done, sizes[n] - done, starts[n] + done)
            done += max(more, 0)
        if done != sizes[n]:
            failed[0] = 1


@precompile("i8 i8[1] i8[1]")
@Compiled
def advise_ranges(file: int, starts: Array, sizes: Array) -> None:
    """Announce reads of an open file to the operating system; `starts` and `sizes` as for `read_ranges`."""
    for n in range(starts.shape[0]):
        if sizes[n] > 0:  # no bytes would mean all that follow
            advise(file, starts[n], sizes[n], _WILL_NEED)


@Compiled
def write_path(root: Array, name: Array, path: Array) -> int:
    """Write a path that ends with a zero. Returns 0 if the name is empty or contains a zero."""
    size = name.shape[0]
    while size and name[size - 1] == 0:
        size -= 1
    at = 0
    if size and name[0] != 0x2F:
        at = root.shape[0]
        for i in range(at):
            path[i] = root[i]
    for i in range(size):
        if name[i] == 0:
            return 0
        path[at + i] = name[i]
    path[at + size] = 0
    return size
