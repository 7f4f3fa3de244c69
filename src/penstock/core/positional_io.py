"""Reads and writes at a position of an open file, whose descriptor any number of threads may share.

* `pread(descriptor, count, at)` returns up to `count` bytes from byte `at`, fewer at the end of the file.
* `pread_into(descriptor, view, at)` reads into memory, and returns the number of bytes; 0 at the end of the file.
* `pwrite(descriptor, data, at)` writes, and returns the number of bytes written.
"""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

# Windows can only move the position of the file, which the threads share, so one of them reads or writes at a time.
_lock = threading.Lock()


def _pread(descriptor: int, count: int, at: int) -> bytes:
    with _moved(descriptor, at):
        return os.read(descriptor, count)


def _pread_into(descriptor: int, view: memoryview, at: int) -> int:
    data = _pread(descriptor, len(view), at)
    view[: len(data)] = data
    return len(data)


def _pwrite(descriptor: int, data: memoryview, at: int) -> int:
    with _moved(descriptor, at):
        return os.write(descriptor, data)


@contextmanager
def _moved(descriptor: int, at: int) -> Generator[None]:
    """Move the position of a file, and return to the former one, from which somebody may read on."""
    with _lock:
        before = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, at, os.SEEK_SET)
        try:
            yield
        finally:
            os.lseek(descriptor, before, os.SEEK_SET)


def _preadv(descriptor: int, view: memoryview, at: int) -> int:
    return os.preadv(descriptor, [view], at)


# Not functions around those of the system: readers of small records call them once per record.
if hasattr(os, "preadv"):
    pread, pread_into, pwrite = os.pread, _preadv, os.pwrite
else:
    pread, pread_into, pwrite = _pread, _pread_into, _pwrite
