"""Reading as a stage of its own: what the next batches need is fetched on threads that may wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from penstock.engine.host.run_context import RunContext
from penstock.engine.host.sharded_reader import SampleIndices
from penstock.sources.order.schedule import BatchStep
from penstock.sources.storage.byte_range import ByteRange
from penstock.sources.storage.disk_cache import uncached
from penstock.sources.storage.prefetch import FetchThreads, PrefetchRequest, ahead

_STEPS = 8
"""How many batches beyond those that are begun are fetched ahead, where there is room."""


class ReadAhead:
    """Announces what the batches that come next will read.

    Args:
        context: of the run.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._fetched = context.executor.prefetched
        self._readings = [
            sharded
            for sharded in context.readers.values()
            if any(reader.source.cost in self._fetched for reader in sharded.readers)
        ]
        self._pool = context.executor.read_executor if self._readings else None
        self._steps = context.prefetch_depth + _STEPS
        self._announced: deque[tuple[BatchStep, PrefetchRequest]] = deque()

    def follow(self, step: BatchStep) -> None:
        """Have the bytes of the batches from this one on fetched, and let go of those of all others."""
        if self._pool is None:
            return
        while self._announced and self._announced[0][0] != step:
            ahead.release(self._announced.popleft()[1])
        if not self._announced:  # also after `close`, which may have interrupted threads in their turns
            self._readers = FetchThreads(self._pool.submit, self._pool.workers)
        following = self._context.schedule.next_step(self._announced[-1][0]) if self._announced else step
        while len(self._announced) <= self._steps:
            needs = self._needs(following)
            self._announced.append((following, ahead.prefetch(needs, self._readers)))
            following = self._context.schedule.next_step(following)

    def _needs(self, step: BatchStep) -> Sequence[ByteRange]:
        numbers = self._context.local_rows(step.rows)
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
