"""Reads and writes at a position of an open file, whose descriptor any number of threads may share."""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

_IS_SUPPORTED = hasattr(os, "preadv")

# Windows can only move the position of the file, which the threads share, so one of them reads or writes at a time.
_lock = threading.Lock()


def pread(descriptor: int, count: int, at: int) -> bytes:
    """Return up to `count` bytes from byte `at`, fewer at the end of the file."""
    if _IS_SUPPORTED:
        return os.pread(descriptor, count, at)
    with _moved(descriptor, at):
        return os.read(descriptor, count)


def pread_into(descriptor: int, view: memoryview, at: int) -> int:
    """Read bytes from byte `at` into memory. Returns their number, which is 0 at the end of the file."""
    if _IS_SUPPORTED:
        return os.preadv(descriptor, [view], at)
    data = pread(descriptor, len(view), at)
    view[: len(data)] = data
    return len(data)


def pwrite(descriptor: int, data: memoryview, at: int) -> int:
    """Write bytes from byte `at`. Returns how many were written."""
    if _IS_SUPPORTED:
        return os.pwrite(descriptor, data, at)
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
