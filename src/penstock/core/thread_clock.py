"""Clock of a thread: wall time, and the time that it worked without compilation."""

import threading
import time
from typing import NamedTuple

from penstock.core.slice_recorder import active_recorder


class ThreadTimes(NamedTuple):
    """Times of a thread, in seconds. Only differences between two of them have a meaning.

    Args:
        wall: Wall time.
        work: Wall time without the compilation of loops and device programs in this thread.
        cpu: CPU time of the thread without compilation.
    """

    wall: float
    work: float
    cpu: float


class _Compilation(threading.local):
    """Compilation in the current thread so far, in seconds."""

    wall = 0.0
    cpu = 0.0


_compilation = _Compilation()


def thread_times() -> ThreadTimes:
    """Return the times of the current thread.

    >>> before = thread_times()
    >>> after = thread_times()
    >>> after.wall - before.wall >= after.cpu - before.cpu >= 0
    True
    """
    wall = time.perf_counter()
    return ThreadTimes(wall, wall - _compilation.wall, time.thread_time() - _compilation.cpu)


def count_compilation(start: ThreadTimes) -> None:
    """Count the time since `start` as compilation in this thread. Calls may be nested.

    >>> start = thread_times()
    >>> _ = sum(range(10_000))
    >>> count_compilation(start)
    >>> end = thread_times()
    >>> end.work - start.work < end.wall - start.wall
    True
    """
    # The clock already excludes nested compilations.
    end = thread_times()
    _compilation.wall += end.work - start.work
    _compilation.cpu += end.cpu - start.cpu
    if (recorder := active_recorder()) is not None:
        recorder.add("compilation", start.wall, end.wall)
