"""Counters and stage timers: any stage may add to them, and `stats()` reads them."""

from __future__ import annotations

import threading
from dataclasses import dataclass

HOST_WAIT, DEVICES_WAIT = "wait for the host", "wait for emulated devices"
"""Under these names a run reports time in which it did nothing; all others are work."""


@dataclass(frozen=True, slots=True)
class StageTiming:
    """What a stage has done so far: how often it ran, for how many samples, and how many seconds that took."""

    calls: int = 0
    samples: int = 0
    seconds: float = 0.0


class StageTimers:
    """Adds up what the stages of one run report. May be called from any thread.

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
        """Record one more call of `stage`."""
        with self._lock:
            so_far = self._stages.get(stage)
            if so_far is None:
                so_far = self._stages[stage] = [0, 0, 0.0]
            so_far[0] += 1
            so_far[1] += samples
            so_far[2] += seconds

    def snapshot(self) -> dict[str, StageTiming]:
        """What has been recorded up to now, by stage."""
        with self._lock:
            return {
                stage: StageTiming(int(calls), int(samples), seconds)
                for stage, (calls, samples, seconds) in self._stages.items()
            }
