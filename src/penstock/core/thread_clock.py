"""Clocks of a thread: wall and CPU time of its work, without compilation."""

import threading
import time

from penstock.core.slice_recorder import active_recorder

# A lap shorter than this counts as CPU time without a look at the CPU clock, a system call of 1 to 2 us that a light
# batch would make for each stage. Waits that matter are longer.
_SHORT_SECONDS = 500e-6


class _Compilation(threading.local):
    """Compilation in the current thread so far, in seconds."""

    wall = 0.0
    cpu = 0.0


_compilation = _Compilation()


class WallClock:
    """Wall time of this thread without compilation, for waits.

    Attributes:
        start: Beginning of the current lap, in seconds of `time.perf_counter`.

    >>> clock = WallClock()
    >>> seconds, cpu_seconds = clock.lap()
    >>> seconds >= 0, cpu_seconds
    (True, 0.0)
    """

    __slots__ = ("_compiled", "start")

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self._compiled = _compilation.wall

    def lap(self) -> tuple[float, float]:
        """End the lap and begin the next one. Returns wall and CPU time in seconds; a wait has no CPU time."""
        now, compiled = time.perf_counter(), _compilation.wall
        seconds = now - self.start - (compiled - self._compiled)
        self.start, self._compiled = now, compiled
        return seconds, 0.0


class ThreadClock(WallClock):
    """Wall and CPU time of this thread without compilation, for work.

    >>> clock = ThreadClock()
    >>> _ = sum(range(100_000))
    >>> seconds, cpu_seconds = clock.lap()
    >>> seconds > 0, cpu_seconds > 0
    (True, True)
    """

    __slots__ = ("_cpu",)

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self._compiled = _compilation.wall
        self._cpu = time.thread_time() - _compilation.cpu

    def lap(self) -> tuple[float, float]:
        """End the lap and begin the next one. Returns wall and CPU time in seconds."""
        # As in the base class, without a call: a light batch has several laps.
        now, compiled = time.perf_counter(), _compilation.wall
        seconds = now - self.start - (compiled - self._compiled)
        self.start, self._compiled = now, compiled
        if seconds < _SHORT_SECONDS:
            self._cpu += seconds
            return seconds, seconds
        cpu = time.thread_time() - _compilation.cpu
        # Negative if short laps before this one have waited for a CPU.
        cpu_seconds = max(0.0, cpu - self._cpu)
        self._cpu = cpu
        return seconds, cpu_seconds


def count_compilation(clock: ThreadClock) -> None:
    """Count the current lap of a clock as compilation in this thread. Calls may be nested.

    >>> outer, clock = ThreadClock(), ThreadClock()
    >>> _ = sum(range(100_000))
    >>> count_compilation(clock)
    >>> start = outer.start
    >>> seconds, _ = outer.lap()
    >>> seconds < outer.start - start
    True
    """
    start = clock.start
    # The clock already excludes nested compilations.
    seconds, cpu_seconds = clock.lap()
    _compilation.wall += seconds
    _compilation.cpu += cpu_seconds
    if (recorder := active_recorder()) is not None:
        recorder.add("compilation", start, clock.start)
