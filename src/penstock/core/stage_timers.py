"""Stage timers, which `stats()` reads."""

from __future__ import annotations

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
        self._stages: dict[str, StageTiming] = {}

    def add(self, stage: str, *, seconds: float, samples: int = 0) -> None:
        """Record a call of `stage`."""
        # A total that another thread adds between the look-up and the assignment would be lost.
        with self._lock:
            total = self._stages.get(stage, StageTiming())
            self._stages[stage] = StageTiming(total.calls + 1, total.samples + samples, total.seconds + seconds)

    def snapshot(self) -> dict[str, StageTiming]:
        """Return the totals by stage."""
        with self._lock:
            return dict(self._stages)
