"""Host batches, prepared ahead of the consumer.

The contract, which the code below must keep:

* **Who runs what.** The consumer's thread calls `begin`, `take` and `close`, one at a time. A batch is cut into chunks,
  runs of rows; each is one function on the pool. Chunks share nothing that changes: they write disjoint rows of the
  batch's buffers.
* **Light batches.** What takes less time than handing it to a thread is computed in `take`, several batches of an epoch
  at once, as if they were one larger batch: rows are independent, so it does not show. Waiting counts as time: a slow
  disk, or a function that sleeps, is work for a thread.
* **Pairs.** Small dense batches that are not light, but not worth cutting either, are computed two at once on a thread,
  where no Python runs for each sample: the cost of Python per batch is halved. A pair that fails is computed again one
  by one.
* **The GIL.** Samples that take microseconds hand the interpreter's lock back and forth so often that two threads are
  slower than one. Chunks of such work take turns: one of them runs, the others wait without working.
* **Streams.** What users' sources give for a batch is asked for by the consumer's thread, when the batch begins. Only
  that thread calls them, as they may not be made for another. The end of a stream, or its failure, found ahead is
  raised by the batch that it belongs to.
* **Order.** `take` returns the batch of the step it is given. Batches of the steps that follow are begun ahead, at most
  `depth` of them; nothing depends on which chunk ends first.
* **Memory.** With the one that the consumer holds, at most depth + 2 batches exist. Batches that are computed at once
  have one buffer, which is held as long as one of them: of these, fewer are begun ahead. A batch that was taken belongs
  to the consumer: its buffers are not written again while anything can reach them
  (`penstock.engine.host.batch_buffers`).
* **Reading ahead.** What batches need from object stores is fetched before they begin, by threads that do nothing else
  (`penstock.engine.host.read_ahead`), so that chunks find it in memory and do not wait.
* **Failure.** The first failing chunk, in the order of rows, ends the run of the loader: what has not begun is dropped,
  what runs is waited for, the threads end, and `take` raises the cause. Nothing is skipped: the same step, taken
  again, is computed again.
* **A jump.** Taking another step than the one that was expected drops what was begun ahead.
* **The end.** `close` ends the threads in the same way. Dropping the last reference to the loader ends them, too, but
  does not wait for them: a finalizer may run where waiting would never end. No chunk holds the loader, so a loop that
  is left by `break` or an exception leaves nothing running for long once the iterator is gone.
"""

from __future__ import annotations

import math
import os
import weakref
from collections import deque
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.core.columns import Column, Indices
from penstock.engine.failures.bad_row import BadRow
from penstock.engine.host.batch_buffers import BatchBuffers
from penstock.engine.host.chunk_scheduler import ChunkScheduler
from penstock.engine.host.host_program import HostProgram
from penstock.engine.host.read_ahead import ReadAhead
from penstock.engine.host.stream_feed import FedBatch
from penstock.engine.host.worker_threads import Executor
from penstock.errors import ContextError, PenstockError, SourceError
from penstock.plan.stage_grouping import StageKind
from penstock.sources.order.schedule import BatchStep
from penstock.sources.stream import EndOfStreamError

_SMALL = 1 << 22
"""Bytes of a batch up to which it may be one of a pair: its memory is held while the other one's is needed."""


@dataclass(frozen=True)
class HostBatch:
    """A batch in the making.

    Args:
        step: which.
        buffers: per result, in the order of the plan's, its column.
        chunks: the work that fills them.
        failed: once it is finished, the rows that failed and are tolerated.
        slice_index: which one it is of those that the same chunks fill; None where it is alone.
    """

    step: BatchStep
    buffers: tuple[Any, ...]
    chunks: tuple[Future[list[BadRow]], ...]
    failed: Sequence[BadRow] = ()
    slice_index: int | None = None

    def wait(self) -> HostBatch:
        """The finished batch.

        Raises:
            PenstockError: what the first failing chunk raised.
        """
        failed = [bad for chunk in self.chunks for bad in chunk.result()]
        return replace(self, failed=_of_batch(failed, self.slice_index, self.step.rows)) if failed else self

    def drop(self) -> None:
        """Give up the chunks that have not begun."""
        for chunk in self.chunks:
            chunk.cancel()


class HostLoader:
    """Gives the host's results batch by batch, while the next ones are being prepared.

    Args:
        program: what is computed.
        dtypes: per result, the dtype to deliver.
    """

    def __init__(self, program: HostProgram, dtypes: Sequence[np.dtype[Any]]) -> None:
        context = program.context
        self._program = program
        self._context = context
        self._depth = context.prefetch_depth
        self._after = context.schedule.next_step
        self._process = os.getpid()
        self._ahead: deque[HostBatch] = deque()
        specs = [value.spec for value in program.plan.results]
        self._columns = [(s.fixed_shape if s.dense else None, dtype) for s, dtype in zip(specs, dtypes, strict=True)]
        self._copies = all(spec.dense for spec in specs)
        ways = {stage.way for stage in program.plan.stages}
        self._pace = ChunkScheduler(by_sample=program.by_sample, whole=StageKind.WHOLE_BATCH in ways)
        sizes = [math.inf if sizes is None else math.prod(sizes) * dtype.itemsize for sizes, dtype in self._columns]
        self._row_bytes = sum(sizes)
        self._buffers = BatchBuffers(keep=self._depth + 2)
        self._reading = ReadAhead(context)
        self._finalizer = weakref.finalize(self, _abandon, context.executor, self._reading)

    def begin(self, step: BatchStep) -> tuple[Future[list[BadRow]], ...]:
        """Begin a batch that will be taken next, if that has not been done, and do not wait for it.

        Returns:
            Its chunks of work; `take` raises what the first of them raises. A light batch is made now, and has none.

        Raises:
            SampleError: a sample of a light batch is bad.
            ContextError: this process is a fork of the one that made the loader.
        """
        if os.getpid() != self._process:
            raise ContextError(
                "this process was forked after the iterator or pipeline was made, and has no threads of it",
                given=f"process {os.getpid()}, forked from {self._process}",
                fix='make it in the process that uses it: multiprocessing.get_context("spawn"); iterator.get_state() '
                "and set_state() carry its place over",
            )
        if self._ahead and self._ahead[0].step != step:
            self._drop()
            if self._context.feeder is not None:
                self._context.feeder.rewind()
        self._reading.follow(step)
        light = self._light(step.rows)
        try:
            if not self._ahead and light:
                self._compute(step, light)
            elif not self._ahead:
                self._ahead += self._begin(step)
        except (PenstockError, EndOfStreamError) as error:
            if self._context.feeder is not None:
                ended = isinstance(error, EndOfStreamError)
                (self._context.feeder.delivered if ended else self._context.feeder.forgive)(step)
            raise
        return self._ahead[0].chunks

    def get(self, step: BatchStep) -> HostBatch:
        """A finished batch.

        Raises:
            SampleError: a sample of this batch is bad.
            ContextError: another thread has closed the loader meanwhile.
        """
        self.begin(step)
        while self._room(step.rows) and not self._light(step.rows):
            try:
                self._ahead += self._begin(self._after(self._ahead[-1].step))
            except (PenstockError, EndOfStreamError):
                break  # the streams keep it for the batch that it belongs to
        batch = self._ahead.popleft()
        try:
            finished = batch.wait()
        except CancelledError:
            raise ContextError(
                "the iterator or pipeline was closed while this thread waited for its batch",
                fix="close it when no other thread takes batches; asking again makes the same batch",
            ) from None
        except BaseException as error:
            batch.drop()
            if batch.slice_index is not None and isinstance(
                error, Exception
            ):  # perhaps a sample of the other of a pair
                self._drop()
                self._ahead += self._begin(step, alone=True)
                return self.get(step)
            self.close()
            raise
        if self._context.feeder is not None:
            self._context.feeder.delivered(step)
        return finished

    def close(self) -> None:
        """End the threads and forget what was begun. The loader may be used again."""
        self._drop()
        self._reading.close()
        self._context.executor.close()

    def _drop(self) -> None:
        for batch in self._ahead:
            batch.drop()
        self._ahead.clear()

    def _light(self, rows: int) -> int:
        """How many batches are computed at once in the consumer's thread, which holds one of those before them."""
        return self._pace.inline_batches(rows, (self._depth + 2) // 2)

    def _room(self, rows: int) -> bool:
        """Whether another batch may be begun ahead, or another pair."""
        begun = len(self._ahead)
        if self._in_pairs(rows):  # while the consumer holds one of a pair, the other's memory is held, too
            return begun + (not self._ahead[0].slice_index) < self._depth
        return begun <= self._depth

    def _in_pairs(self, rows: int) -> bool:
        return self._depth > 1 and self._row_bytes * rows <= _SMALL and self._pace.pairs_batches(rows)

    def _feed(self, step: BatchStep, *, at_once: bool = False) -> tuple[BatchStep, FedBatch | None]:
        """What the streams give for a batch, which has as many rows as they give; see `StreamFeeder.take`."""
        feeder = self._context.feeder
        if feeder is None:
            return step, None
        fed = feeder.next_batch(step, at_once=at_once)
        if fed.rows != step.rows and self._context.readers:
            raise SourceError(
                "a source gives fewer samples than the readers of the definition",
                given=f"{fed.rows} samples",
                expected=step.rows,
            )
        return step if fed.rows == step.rows else replace(step, rows=fed.rows), fed

    def _compute(self, step: BatchStep, count: int) -> None:
        """Compute a batch now and here, and, for the same overhead, those that follow it in the epoch."""
        asked = step
        step, fed = self._feed(step, at_once=self._copies)
        steps, numbers = self._together(step, count)
        buffers = self._empty(len(numbers))
        try:
            failed = _compute_chunk(self._program, self._pace, step, numbers, buffers, fed, 0, len(numbers))
        except Exception:
            if len(steps) > 1:  # perhaps a sample of a later batch: this one may be good
                return self._compute(step, 1)
            self.close()
            raise
        for batch in _parted([asked, *steps[1:]], len(numbers), buffers, ()):
            bad = _of_batch(failed, batch.slice_index, step.rows)
            self._ahead.append(replace(batch, failed=bad) if bad else batch)
        return None

    def _begin(self, step: BatchStep, *, alone: bool = False) -> list[HostBatch]:
        """A batch on the pool, with the one that follows it where they come in pairs.

        What its streams give is asked for here and now, in the consumer's thread.
        """
        asked = step
        step, fed = self._feed(step)
        steps, numbers = self._together(step, 2 if not alone and self._in_pairs(step.rows) else 1)
        rows = len(numbers)
        buffers = self._empty(rows)
        count = 1 if len(steps) > 1 else self._pace.chunks(rows, self._context.executor.workers)
        cuts = pairwise([rows * chunk // count for chunk in range(count + 1)])
        work = partial(_compute_chunk, self._program, self._pace, step, numbers, buffers, fed)
        chunks = tuple([self._context.executor.submit(work, start, stop) for start, stop in cuts])
        return _parted([asked, *steps[1:]], rows, buffers, chunks)

    def _together(self, step: BatchStep, count: int) -> tuple[list[BatchStep], Indices]:
        """A batch and those that follow it in the epoch, `count` in all: their steps, and the numbers of their rows."""
        steps = [step]
        while len(steps) < count and self._program.consecutive(step.rows):
            following = self._after(steps[-1])
            if (following.epoch, following.rows) != (step.epoch, step.rows):
                break
            steps.append(following)
        one = self._context.local_rows(step.rows)
        return steps, one if len(steps) == 1 else np.concatenate([one + n * step.rows for n in range(len(steps))])

    def _empty(self, rows: int) -> tuple[Column, ...]:
        return tuple(
            [
                [np.empty(0, dtype)] * rows if sizes is None else self._buffers.empty((rows, *sizes), dtype)
                for sizes, dtype in self._columns
            ]
        )


def _abandon(*pools: Executor | ReadAhead) -> None:
    for pool in pools:
        pool.shutdown_nowait()


def _parted(
    steps: Sequence[BatchStep], rows: int, buffers: tuple[Column, ...], chunks: tuple[Future[list[BadRow]], ...]
) -> list[HostBatch]:
    """The batches of some steps, whose rows, `rows` in all, follow each other in the buffers."""
    if len(steps) == 1:
        return [HostBatch(steps[0], buffers, chunks)]
    cuts = pairwise([rows * place // len(steps) for place in range(len(steps) + 1)])
    parts = [tuple([buffer[start:stop] for buffer in buffers]) for start, stop in cuts]
    return [
        HostBatch(step, part, chunks, slice_index=place)
        for place, (step, part) in enumerate(zip(steps, parts, strict=True))
    ]


def _of_batch(failed: Sequence[BadRow], place: int | None, rows: int) -> Sequence[BadRow]:
    """The failed rows of one of several batches that were computed as one, by their numbers in that batch."""
    if place is None:
        return failed
    first = place * rows
    return [replace(bad, number=bad.number - first) for bad in failed if first <= bad.number < first + rows]


def _compute_chunk(
    program: HostProgram,
    pace: ChunkScheduler,
    step: BatchStep,
    numbers: Indices,
    buffers: tuple[Column, ...],
    fed: FedBatch | None,
    start: int,
    stop: int,
) -> list[BadRow]:
    whole = stop - start == len(numbers)
    slots = [None if isinstance(buffer, list) else buffer if whole else buffer[start:stop] for buffer in buffers]
    with pace.timed(stop - start):
        columns, failed = program.compute(step, numbers if whole else numbers[start:stop], slots, fed)
    for buffer, column in zip(buffers, columns, strict=True):
        if isinstance(buffer, list):
            buffer[start:stop] = list(column)
    return failed
