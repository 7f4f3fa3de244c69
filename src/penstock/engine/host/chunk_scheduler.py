"""How host work is done best, by how long it has taken so far: here or on threads, whole or in chunks, in turns."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from contextlib import nullcontext
from typing import Any

_CHEAP_ROW = 60e-6
"""Seconds of a sample below which threads take turns (measured: 28x28 JPEGs, 20 us each, cost 40 on two threads)."""

_LIGHT_BATCH = 1e-3
"""Seconds of a batch below which it is not handed to a thread (measured: to hand it over costs 300 to 700 us)."""

_CHUNK = 10e-3
"""Seconds of work that are worth a thread of their own; what takes less is not cut, but done in pairs."""

_AT_ONCE = nullcontext()


class ChunkScheduler:
    """How long host work has taken so far, and how it is done best.

    Args:
        by_sample: whether Python runs for each sample, and competes for the interpreter's lock.
        whole: whether a batch cannot be cut.
    """

    def __init__(self, *, by_sample: bool, whole: bool) -> None:
        self._by_sample, self._whole = by_sample, whole
        self.turn = threading.Lock()
        self._recent: deque[float] = deque(maxlen=8)

    @property
    def _row_seconds(self) -> float:
        """Of the quickest recent chunk: the others may have waited for a processor."""
        return min(self._recent, default=math.inf)

    @property
    def cheap(self) -> bool:
        """Whether samples are so cheap that threads are slower than one."""
        return self._by_sample and self._row_seconds < _CHEAP_ROW

    def inline_batches(self, rows: int, most: int) -> int:
        """How many batches of `rows` rows are computed at once in the consumer's thread; 0 if threads are better."""
        seconds = self._row_seconds * rows
        if seconds > _LIGHT_BATCH:
            return 0
        return 1 if self._whole else min(most, int(2 * _LIGHT_BATCH / max(seconds, 1e-9)))

    def chunks(self, rows: int, workers: int) -> int:
        """Into how many chunks a batch of `rows` rows is cut."""
        if self._whole or self.cheap or not (self._recent or self._by_sample):
            return 1
        return max(1, min(workers, rows, math.ceil(min(self._row_seconds * rows / _CHUNK, workers))))

    def pairs_batches(self, rows: int) -> bool:
        """Whether a thread computes two batches of `rows` rows at once."""
        return not (self._whole or self._by_sample) and self._row_seconds * rows <= _CHUNK

    def timed(self, rows: int) -> _Timed:
        """A context in which `rows` rows are computed: in turn with others, if they are cheap."""
        return _Timed(self, rows)

    def record(self, seconds: float, rows: int) -> None:
        """Take note of a chunk."""
        self._recent.append(seconds / max(rows, 1))


class _Timed:
    def __init__(self, pace: ChunkScheduler, rows: int) -> None:
        self._pace, self._rows = pace, rows
        self._turn: Any = pace.turn if pace.cheap else _AT_ONCE

    def __enter__(self) -> None:
        self._turn.__enter__()
        self._start = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self._pace.record(time.perf_counter() - self._start, self._rows)
        self._turn.__exit__(*error)
