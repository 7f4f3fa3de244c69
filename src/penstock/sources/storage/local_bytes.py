"""Bytes of local files."""

import errno
import os
import stat

import numpy as np
from numpy.typing import NDArray

from penstock.core.positional_io import pread
from penstock.sources.storage.sample_limit import check_sample_size

# O_NONBLOCK: opening a pipe would otherwise wait for a writer, perhaps forever.
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_file(path: bytes | str, limited: bool = False) -> NDArray[np.uint8]:
    """Read a file.

    Args:
        path: Path of the file.
        limited: True if it is a sample, whose size `check_sample_size` limits.

    Raises:
        ResourceError: It is larger than a sample may be.
        OSError: It cannot be read, is not a regular file, or became shorter while it was read; or the path is invalid.
    """
    descriptor, info = open_regular(path)
    try:
        if limited:
            check_sample_size(info.st_size, path)
        data = os.read(descriptor, info.st_size)
        while len(data) < info.st_size:
            part = os.read(descriptor, info.st_size - len(data))
            if not part:
                raise OSError(errno.EIO, f"it became shorter while it was read: {len(data)} bytes of {info.st_size}")
            data += part
    finally:
        os.close(descriptor)
    return np.frombuffer(data, np.uint8)


def open_regular(path: bytes | str) -> tuple[int, os.stat_result]:
    """Open a file. Returns its descriptor, and its size, type and times.

    Raises:
        OSError: It cannot be opened, or is not a regular file.
    """
    descriptor = _opened(path)
    info = os.fstat(descriptor)
    if not stat.S_ISREG(info.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a file, but a folder, a pipe, a socket or a device")
    return descriptor, info


def read_range(path: bytes | str, start: int, stop: int) -> NDArray[np.uint8]:
    """Read a byte range of a file; the result is shorter if the file ends before.

    Raises:
        OSError: The file cannot be read.
    """
    descriptor = _opened(path)
    try:
        data = pread(descriptor, stop - start, start)
        while len(data) < stop - start and (more := pread(descriptor, stop - start - len(data), start + len(data))):
            data += more
    finally:
        os.close(descriptor)
    return np.frombuffer(data, np.uint8)


def _opened(path: bytes | str) -> int:
    try:
        return os.open(path, _READ)
    except ValueError as error:
        raise OSError(errno.EINVAL, f"it is no path: {error}") from None
