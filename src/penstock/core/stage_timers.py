"""Stage timers, which `stats()` reads."""

import threading
from collections.abc import Mapping
from typing import NamedTuple

from penstock.core.dataclass import dataclass
from penstock.core.slice_recorder import active_recorder
from penstock.core.thread_clock import WallClock

# Names of the timers that count idle time; all others count work.
HOST_WAIT, DEVICES_WAIT = "wait for the host", "wait for emulated devices"
IDLE = frozenset({HOST_WAIT, DEVICES_WAIT})


@dataclass(frozen=True, slots=True)
class StageTiming:
    """Totals of a stage, without compilation.

    Args:
        calls: Number of calls.
        samples: Number of their samples.
        seconds: Wall time in seconds, the sum over all threads.
        cpu_seconds: CPU time in seconds, the sum over all threads. Waiting for data or for the GIL takes none.
    """

    calls: int = 0
    samples: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TimerSnapshot:
    """Totals of a run.

    Args:
        stages: Totals by stage.
        elapsed_seconds: Wall time from the first call of a stage to the end of the last one.
        compilation_seconds: Time spent compiling loops and device programs, the sum over all threads.
    """

    stages: Mapping[str, StageTiming]
    elapsed_seconds: float
    compilation_seconds: float


class StageTotals(NamedTuple):
    """Totals that one process hands to another.

    Args:
        stages: Calls, samples, seconds and CPU seconds by stage.
        compilation: Time spent compiling, in seconds.
        first: Beginning of the first call, in seconds of `time.perf_counter`, which all processes share.
        last: End of the last call, in the same unit.
    """

    stages: Mapping[str, list[float]]
    compilation: float
    first: float
    last: float


class StageTimers:
    """Totals of the stages of a run. Thread-safe.

    >>> from penstock.core.thread_clock import ThreadClock
    >>> timers, clock = StageTimers(), ThreadClock()
    >>> timers.add("read", clock, samples=10)
    >>> timers.add("read", clock, samples=10)
    >>> timing = timers.snapshot().stages["read"]
    >>> timing.calls, timing.samples, timing.seconds > 0
    (2, 20, True)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stages: dict[str, list[float]] = {}
        self._compilation = 0.0
        self._first, self._last = float("inf"), 0.0

    def add(self, stage: str, clock: WallClock, *, samples: int = 0) -> None:
        """Record a call of a stage by this thread, and begin the next lap of the clock.

        Args:
            stage: Name of the stage.
            clock: Clock of the thread, whose lap began with the call.
            samples: Number of samples.
        """
        start = clock.start
        seconds, cpu_seconds = clock.lap()
        # Updates of a list are not atomic under the GIL.
        with self._lock:
            totals = self._stages.get(stage)
            if totals is None:
                totals = self._stages[stage] = [0, 0, 0.0, 0.0]
            totals[0] += 1
            totals[1] += samples
            totals[2] += seconds
            totals[3] += cpu_seconds
            # A stage that compiles may run inside of a wait, which must not count it again.
            if stage not in IDLE:
                self._compilation += clock.start - start - seconds
            if start < self._first:
                self._first = start
            self._last = clock.start
        if (recorder := active_recorder()) is not None:
            recorder.add(stage, start, clock.start, samples=samples)

    def take(self) -> StageTotals:
        """Return the totals so far, and begin again at zero."""
        with self._lock:
            totals = StageTotals(self._stages, self._compilation, self._first, self._last)
            self._stages, self._compilation, self._first, self._last = {}, 0.0, float("inf"), 0.0
        return totals

    def merge(self, totals: StageTotals) -> None:
        """Add the totals that the timers of another process gave."""
        with self._lock:
            for stage, added in totals.stages.items():
                own = self._stages.setdefault(stage, [0, 0, 0.0, 0.0])
                own[:] = [one + other for one, other in zip(own, added, strict=True)]
            self._compilation += totals.compilation
            self._first = min(self._first, totals.first)
            self._last = max(self._last, totals.last)

    def snapshot(self) -> TimerSnapshot:
        """Return the totals so far."""
        # A copy: the totals of a running stage would change under the caller.
        with self._lock:
            stages = {
                stage: StageTiming(int(calls), int(samples), seconds, cpu)
                for stage, (calls, samples, seconds, cpu) in self._stages.items()
            }
            # The difference of two readings can be a rounding error below zero.
            return TimerSnapshot(stages, max(0.0, self._last - self._first), max(0.0, self._compilation))
