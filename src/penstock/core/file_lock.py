"""Advisory locks, which the kernel releases if the process dies."""

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
