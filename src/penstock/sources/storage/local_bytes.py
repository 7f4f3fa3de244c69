"""Bytes of local files."""

from __future__ import annotations

import errno
import os
import stat

import numpy as np
from numpy.typing import NDArray

from penstock.sources.storage.sample_limit import check_sample_size

_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_file(path: bytes | str, limited: bool = False) -> NDArray[np.uint8]:
    """The bytes of a file.

    Args:
        path: of the file.
        limited: whether it is a sample, whose size has a limit.

    Raises:
        ResourceError: it has more bytes than are read for one sample.
        OSError: it cannot be read, is no regular file, became shorter while it was read, or its path is none.
    """
    descriptor = _opened(path)
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "it is no file, but a folder, a pipe, a socket or a device")
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
    return _array(data)


def read_range(path: bytes | str, start: int, stop: int) -> NDArray[np.uint8]:
    """Bytes of a file, fewer where it ends before.

    Raises:
        OSError: they cannot be read.
    """
    descriptor = _opened(path)
    try:
        data = os.pread(descriptor, stop - start, start)
        while len(data) < stop - start and (more := os.pread(descriptor, stop - start - len(data), start + len(data))):
            data += more
    finally:
        os.close(descriptor)
    return _array(data)


def _opened(path: bytes | str) -> int:
    try:
        return os.open(path, _READ)  # without waiting: nobody may ever write to a pipe
    except ValueError as error:
        raise OSError(errno.EINVAL, f"it is no path: {error}") from None


def _array(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
