"""Reading as a stage of its own: what the next batches need is fetched on threads that may wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from penstock.core.columns import Indices
from penstock.engine.host.sharded_reader import SampleIndices, ShardedReader
from penstock.engine.host.worker_threads import Executor
from penstock.sources.order.schedule import BatchStep
from penstock.sources.storage.byte_range import ByteRange
from penstock.sources.storage.disk_cache import uncached
from penstock.sources.storage.prefetch import PrefetchRequest, ahead

_STEPS = 8
"""How many batches beyond those that are begun are fetched ahead, where there is room."""


class ReadAhead:
    """Announces what the batches that come next will read.

    Args:
        readings: of a program, those that read from object stores or not.
        local_rows: gives the numbers of the rows that this process computes, for a batch of a number of rows.
        after: the step that follows another.
        pool: has threads that wait for data, or none, and says of what.
        depth: how many batches are begun before they are asked for.
    """

    def __init__(
        self,
        readings: Iterable[ShardedReader],
        local_rows: Callable[[int], Indices],
        after: Callable[[BatchStep], BatchStep],
        pool: Executor,
        depth: int,
    ) -> None:
        self._fetched = pool.fetched
        self._readings = [r for r in readings if any(reader.source.cost in pool.fetched for reader in r.readers)]
        self._local_rows, self._after = local_rows, after
        self._pool = pool.reading if self._readings else None
        self._steps = depth + _STEPS
        self._announced: deque[tuple[BatchStep, PrefetchRequest]] = deque()

    def follow(self, step: BatchStep) -> None:
        """Have the bytes of the batches from this one on fetched, and let go of those of all others."""
        if self._pool is None:
            return
        while self._announced and self._announced[0][0] != step:
            ahead.release(self._announced.popleft()[1])
        following = self._after(self._announced[-1][0]) if self._announced else step
        while len(self._announced) <= self._steps:
            needs = self._needs(following)
            self._announced.append((following, ahead.prefetch(needs, self._pool.submit)))
            following = self._after(following)

    def _needs(self, step: BatchStep) -> Sequence[ByteRange]:
        numbers = self._local_rows(step.rows)
        needs: list[ByteRange] = []
        for reading in self._readings:
            found = reading.samples(step, numbers)
            parts = [found] if isinstance(found, SampleIndices) else [samples for _, samples in found]
            for part in parts:
                if part.source.cost in self._fetched:
                    needs += part.source.byte_ranges(part.indices)
        return uncached(needs)

    def close(self) -> None:
        """Let go of everything, and end the threads."""
        while self._announced:
            ahead.release(self._announced.pop()[1])
        if self._pool is not None:
            self._pool.close()

    def shutdown_nowait(self) -> None:
        """The same for finalizers, which wait for nothing."""
        while self._announced:
            ahead.abandon(self._announced.pop()[1])
        if self._pool is not None:
            self._pool.shutdown_nowait()
