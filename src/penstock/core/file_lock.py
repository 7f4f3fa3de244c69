"""Advisory locks, which the kernel releases if the process dies."""

import functools
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no flock
    fcntl = None


def lock_file(descriptor: int) -> None:
    """Lock an open file or directory until it is closed. No effect without support by the system or the file system.

    Raises:
        BlockingIOError: Another process holds the lock.
    """
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # some network file systems have no locks
        return


def lock_folder(folder: Path) -> Callable[[], None]:
    """Lock a folder. No effect without support by the system or the file system.

    Returns:
        A function that unlocks it.

    Raises:
        BlockingIOError: Another process holds the lock.
        OSError: The folder cannot be opened.
    """
    if fcntl is None:  # Windows cannot open folders either
        return lambda: None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        lock_file(descriptor)
    except BlockingIOError:
        os.close(descriptor)
        raise
    return functools.partial(os.close, descriptor)


@contextmanager
def holding_lock(descriptor: int) -> Generator[None]:
    """Wait for the lock of an open file, and hold it. No effect without support by the system or the file system."""
    locked = False
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            locked = True
        except OSError:  # some network file systems have no locks
            pass
    try:
        yield
    finally:
        if locked and fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
