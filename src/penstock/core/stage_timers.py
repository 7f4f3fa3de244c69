"""Stage timers, which `stats()` reads."""

import threading
from dataclasses import dataclass

# Names of the timers that count idle time; all others count work.
HOST_WAIT, DEVICES_WAIT = "wait for the host", "wait for emulated devices"


@dataclass(frozen=True, slots=True)
class StageTiming:
    """Number of calls of a stage, their samples, and their time in seconds."""

    calls: int = 0
    samples: int = 0
    seconds: float = 0.0


class StageTimers:
    """Totals of the stages of a run. Thread-safe.

    >>> meter = StageTimers()
    >>> meter.add("decode", seconds=0.5, samples=10)
    >>> meter.add("decode", seconds=0.25, samples=10)
    >>> meter.snapshot()["decode"]
    StageTiming(calls=2, samples=20, seconds=0.75)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stages: dict[str, list[float]] = {}

    def add(self, stage: str, *, seconds: float, samples: int = 0) -> None:
        """Record a call of `stage`."""
        # Three updates of a list are not atomic under the GIL.
        with self._lock:
            totals = self._stages.get(stage)
            if totals is None:
                totals = self._stages[stage] = [0, 0, 0.0]
            totals[0] += 1
            totals[1] += samples
            totals[2] += seconds

    def snapshot(self) -> dict[str, StageTiming]:
        """Return the totals by stage."""
        # A copy: the totals of a running stage would change under the caller.
        with self._lock:
            return {
                stage: StageTiming(int(calls), int(samples), seconds)
                for stage, (calls, samples, seconds) in self._stages.items()
            }
