"""Prefetching: threads that may wait fetch the byte ranges of the next batches from object stores."""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial

from penstock.core import Indices
from penstock.engine.host.run_context import RunContext
from penstock.engine.host.worker_threads import Executor
from penstock.sources.order.schedule import BatchStep
from penstock.sources.storage.byte_range import ByteRange
from penstock.sources.storage.byte_range_cache import PrefetchRequest, ahead
from penstock.sources.storage.disk_cache import uncached

# Batches to prefetch beyond those that have begun. The memory limit of the prefetch may allow fewer.
_EXTRA_BATCHES = 8


class ReadAhead:
    """Requests the byte ranges of the next batches.

    Args:
        context: Context of the run. Its executor states which kinds of sources are prefetched, and on which threads.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._prefetched = context.executor.prefetched
        self._readers = [
            (sharded, context.caches.get(node))
            for node, sharded in context.readers.items()
            if any(reader.source.cost in self._prefetched for reader in sharded.readers)
        ]
        self._executor = context.executor.read_executor if self._readers else None
        self._steps = context.prefetch_depth + _EXTRA_BATCHES
        self._announced: deque[tuple[BatchStep, PrefetchRequest]] = deque()

    def follow(self, step: BatchStep) -> None:
        """Prefetch the batches from this step on, and release all others."""
        # None if nothing is prefetched, or if no reader has a source of a kind that is.
        if self._executor is None:
            return
        # After a seek, all requests are for other steps and are released one by one.
        while self._announced and self._announced[0][0] != step:
            ahead.release(self._announced.popleft()[1])
        following = self._context.schedule.next_step(self._announced[-1][0]) if self._announced else step
        while len(self._announced) <= self._steps:
            ranges = self._byte_ranges(following, self._context.local_rows(following.rows))
            self._announced.append((following, ahead.prefetch(ranges, self._executor.submit)))
            following = self._context.schedule.next_step(following)

    @contextmanager
    def prefetched(self, step: BatchStep, rows: Indices) -> Generator[None]:
        """Request the byte ranges of some rows of a batch together, and release them at the end of the `with` block.

        For worker processes, which do not know the rows that they will compute next.
        """
        if self._executor is None:
            yield
            return
        request = ahead.prefetch(self._byte_ranges(step, rows), self._executor.submit)
        try:
            yield
        finally:
            ahead.release(request)

    def _byte_ranges(self, step: BatchStep, rows: Indices) -> Sequence[ByteRange]:
        ranges: list[ByteRange] = []
        for reader, cache in self._readers:
            for part in reader.samples(step, rows):
                if part.source.cost in self._prefetched:
                    indices = part.indices if cache is None else cache.missing(part.source, part.indices)
                    ranges += part.source.byte_ranges(indices)
        # Ranges in the disk cache are read from there when the chunk needs them.
        return uncached(ranges)

    def close(self, patience: float | None = None) -> None:
        """Release all byte ranges and end the threads."""
        while self._announced:
            ahead.release(self._announced.pop()[1])
        if self._executor is not None:
            self._executor.close(patience)

    def abandonment(self) -> Callable[[], None]:
        """Return a function that does the same without waiting, for finalizers.

        It does not hold the context: a stream of the context keeps the exceptions that it raised, their tracebacks hold
        frames of the loader, and a finalizer that holds its own object never runs.
        """
        return partial(_abandon, self._announced, self._executor)


def _abandon(announced: deque[tuple[BatchStep, PrefetchRequest]], executor: Executor | None) -> None:
    while announced:
        ahead.abandon(announced.pop()[1])
    if executor is not None:
        executor.shutdown_nowait()
