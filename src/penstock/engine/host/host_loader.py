"""Host loader: prepares batches ahead of the consumer.

Contract of this module:

* **Executors.** The consumer's thread calls `begin`, `get` and `close`, one at a time. A batch is cut into chunks of
  rows; the executor runs `HostProgram.run_rows` for each, on a thread or in a worker process
  (`penstock.engine.host.chunk_executor`). Chunks share no mutable state: they write disjoint rows of the batch buffers,
  which are in shared memory if processes compute them.
* **Light batches.** A batch that takes less time than handing it to a thread is computed in `get`, together with
  following batches of the epoch, as if they were one larger batch, which saves most of the Python per batch. Rows are
  independent, so results do not change. Waiting counts as time: a slow disk, or a function that sleeps, is work for a
  thread. Worker processes compute light batches, too.
* **Pairs.** Small dense batches that are not light are computed two at a time on a thread: that halves the cost of
  Python per batch. Two pairs are in work, so longer batches are paired only if there are no more threads, or if one
  thread computes all chunks anyway. If Python runs per sample, threads may share the samples instead. Worker processes
  and input hosts compute two batches at the same time instead. If a pair fails, its batches are computed again one by
  one.
* **GIL.** Samples that take microseconds exchange the GIL so often that two threads are slower than one. One thread
  computes all chunks of such samples, unless they only call decoders and the switch interval of the interpreter is
  short.
* **Streams.** The consumer's thread asks users' sources for the data of a batch when the batch begins, because sources
  may not be thread-safe. If a stream ends or fails ahead of the consumer, the batch it belongs to raises the error.
  The consumer tells the feeder which batches it has taken: `get` may be called for a batch that is only looked at.
* **Order.** `get` returns the batch of its step. Up to `prefetch_depth` of the following batches are begun ahead. The
  order in which chunks end does not matter.
* **Memory.** Including the consumer's, at most `prefetch_depth` + 2 batches exist. Small batches that are computed
  together share a buffer of at most 8 MB, which lives as long as any of them. They may take two such buffers more. A
  batch that `get` returned belongs to the consumer: its buffers are not written while anything can reach them
  (`penstock.engine.host.batch_buffers`).
* **Prefetching.** Separate threads fetch data from object stores before batches begin
  (`penstock.engine.host.read_ahead`), so that chunks find it in memory and do not wait.
* **Failure.** The first failing chunk, in row order, ends the run: chunks that have not started are cancelled, running
  ones are awaited, the threads end, and `get` raises the error. No batch is lost: `get` for the same step computes it
  again.
* **Seeking.** A step other than the expected one discards the batches begun ahead.
* **End.** `close` ends the threads in the same way. Dropping the last reference to the loader also ends them, but does
  not wait, because a finalizer that waits can deadlock. No chunk holds the loader, so a loop that `break` or an
  exception leaves stops soon after the iterator is gone.
"""

from __future__ import annotations

import gc
import math
import os
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.core import Array, Indices
from penstock.core.dataclass import dataclass
from penstock.core.stage_timers import HOST_WAIT
from penstock.core.thread_clock import WallClock
from penstock.engine.failures.bad_row import BadRow
from penstock.engine.host.batch_buffers import BatchBuffers
from penstock.engine.host.chunk_executor import Chunk, ChunkExecutor, ChunkResult
from penstock.engine.host.host_program import HostProgram
from penstock.engine.host.read_ahead import ReadAhead
from penstock.engine.host.stream_feed import FedBatch
from penstock.errors import ContextError, PenstockError, SourceError
from penstock.sources.order.schedule import BatchStep
from penstock.sources.stream import EndOfStreamError

# Most batches that are computed together, and their bytes: the memory is held as long as one of them is in use. For
# MNIST, 4 at once take 17 % less CPU time than 2, 8 take 26 % less, and more would save little.
_MAX_JOINT_BATCHES, _MAX_JOINT_BYTES = 8, 1 << 23

# Seconds that running functions have to return after Ctrl-C.
_INTERRUPTED_PATIENCE = 0.5


@dataclass(frozen=True)
class HostBatch:
    """Batch in preparation.

    Args:
        step: The batch.
        columns: Per result its column. None for a ragged result until the chunks are done.
        chunks: Futures of the chunks that fill the columns.
        failed: Once the chunks are done, the rows that failed and are tolerated.
        slice_index: Index among the batches that the same chunks compute; None for a batch computed alone.
    """

    step: BatchStep
    columns: tuple[Any, ...]
    chunks: tuple[Future[ChunkResult], ...]
    failed: Sequence[BadRow] = ()
    slice_index: int | None = None

    def wait(self) -> HostBatch:
        """Wait for the chunks and return the finished batch.

        Raises:
            PenstockError: The error of the first failing chunk, in row order.
        """
        if not self.chunks:
            return self
        results = [chunk.result() for chunk in self.chunks]
        batch = self.with_failed([bad for result in results for bad in result.failed])
        if all(column is not None for column in self.columns):
            return batch
        columns = [
            [sample for result in results for sample in result.columns[number]] if column is None else column
            for number, column in enumerate(self.columns)
        ]
        return replace(batch, columns=tuple(columns))

    def with_failed(self, failed: Sequence[BadRow]) -> HostBatch:
        """Return the batch with its own part of the rows that failed in its chunks."""
        if self.slice_index is not None:  # chunks number rows through all their batches
            first = self.slice_index * self.step.rows
            own = range(first, first + self.step.rows)
            failed = [replace(bad, number=bad.number - first) for bad in failed if bad.number in own]
        return replace(self, failed=failed) if failed else self

    def cancel(self) -> None:
        """Cancel the chunks that have not started."""
        for chunk in self.chunks:
            chunk.cancel()


class HostLoader:
    """Returns the host's results batch by batch while it prepares the next ones.

    Args:
        program: Computes the chunks.
        dtypes: Per result, the dtype to deliver.
    """

    def __init__(self, program: HostProgram, dtypes: Sequence[np.dtype[Any]]) -> None:
        context = program.context
        self._program = program
        self._context = context
        self._depth = context.prefetch_depth
        self._next_step = context.schedule.next_step
        # Threads do not survive a fork. Without this check a forked process would wait forever for its first batch.
        self._process = os.getpid()
        self._ahead: deque[HostBatch] = deque()
        specs = [value.spec for value in program.plan.results]
        self._columns = [(s.fixed_shape if s.dense else None, dtype) for s, dtype in zip(specs, dtypes, strict=True)]
        self._all_dense = all(spec.dense for spec in specs)
        sizes = [math.inf if shape is None else math.prod(shape) * dtype.itemsize for shape, dtype in self._columns]
        self._row_bytes = sum(sizes)
        self._buffers = BatchBuffers(self._depth + 2, context.executor.empty)
        context.executor.prepare(program)
        self._read_ahead = ReadAhead(context)
        self._finalizer = weakref.finalize(self, _shutdown_nowait, context.executor, self._read_ahead.abandonment())

    def begin(self, step: BatchStep) -> tuple[Future[ChunkResult], ...]:
        """Begin the next batch, unless it has begun, and do not wait for it.

        Returns:
            The futures of its chunks; `get` raises the error of the first that fails. Empty for a light batch, which is
            computed before `begin` returns.

        Raises:
            SampleError: A sample of a light batch is bad.
            ContextError: This process is a fork of the process that created the loader.
        """
        if os.getpid() != self._process:
            raise ContextError(
                "this process was forked after the iterator or pipeline was created, and does not have its threads",
                given=f"process {os.getpid()}, forked from {self._process}",
                fix='create it in the process that uses it: multiprocessing.get_context("spawn"); iterator.get_state() '
                "and set_state() transfer the position",
            )
        feeder = self._context.feeder
        if (self._ahead and self._ahead[0].step != step) or (feeder is not None and not feeder.expects(step)):
            self._discard()
            if feeder is not None:
                feeder.rewind()
        self._read_ahead.follow(step)
        # The cost of chunks changes during a run, for example when the file cache of the system becomes warm.
        light = self._light(step.rows)
        try:
            if not self._ahead and light:
                self._compute(step, light)
            elif not self._ahead:
                self._ahead += self._submit_chunks(step)
        except PenstockError:
            # The end of a stream is final for this step. A failure is cleared, so that the step can be tried again.
            if feeder is not None:
                feeder.forgive(step)
            raise
        return self._ahead[0].chunks

    def get(self, step: BatchStep) -> HostBatch:
        """Return a finished batch.

        Raises:
            SampleError: A sample of this batch is bad.
            ContextError: Another thread closed the loader in the meantime.
        """
        clock = WallClock()
        # JAX frees arrays that the user dropped in a callback of the garbage collector, or in its next call. That would
        # come after the buffers of this call are allocated; after collecting now, they are recycled memory.
        gc.collect(0)
        self.begin(step)
        while len(self._ahead) <= self._depth and not self._light(step.rows):
            try:
                self._ahead += self._submit_chunks(self._next_step(self._ahead[-1].step))
            except (PenstockError, EndOfStreamError):
                break  # the stream raises it again for the batch it belongs to
        batch = self._ahead.popleft()
        try:
            finished = batch.wait()
        except CancelledError:
            raise ContextError(
                "the iterator or pipeline was closed while this thread waited for its batch",
                fix="close it when no other thread takes batches; the next call returns the same batch",
            ) from None
        except BaseException as error:
            batch.cancel()
            if batch.slice_index is not None and isinstance(error, Exception):
                # The bad sample may belong to the other batch of the pair.
                self._discard()
                self._ahead += self._submit_chunks(step, alone=True)
                return self.get(step)
            # After Ctrl-C, nobody wants to wait for a server, or for a function that does not return.
            self.close(None if isinstance(error, Exception) else _INTERRUPTED_PATIENCE)
            raise
        self._context.timers.add(HOST_WAIT, clock, samples=step.rows)
        return finished

    def close(self, patience: float | None = None) -> None:
        """End the threads, and free the batches begun ahead and unused buffers. The loader can be used again."""
        self._discard()
        self._read_ahead.close(patience)
        self._context.executor.close(patience)
        self._buffers.release()

    def _discard(self) -> None:
        for batch in self._ahead:
            batch.cancel()
        self._ahead.clear()

    def _light(self, rows: int) -> int:
        """Return the number of batches to compute together in the consumer's thread; 0 if they are not light."""
        if not self._context.executor.in_process:
            return 0
        # The consumer still holds a batch of the previous buffer, so two of these buffers exist at a time.
        most = (self._depth + 2) // 2
        if self._depth > 1:
            most = max(most, min(_MAX_JOINT_BATCHES, int(_MAX_JOINT_BYTES / max(self._row_bytes * rows, 1))))
        return self._program.scheduler.inline_batches(rows, most)

    def _in_pairs(self, rows: int) -> bool:
        executor = self._context.executor
        if self._depth < 2 or not executor.in_process or 2 * self._row_bytes * rows > _MAX_JOINT_BYTES:
            return False
        scheduler = self._program.scheduler
        return scheduler.pairs_batches(rows, scheduler.workers(executor.workers))

    def _feed(self, step: BatchStep, *, at_once: bool = False) -> tuple[BatchStep, FedBatch | None]:
        """Ask the streams for the data of a batch. The returned step has as many rows as they give."""
        if self._context.feeder is None:
            return step, None
        fed = self._context.feeder.next_batch(step, at_once=at_once)
        if fed.rows != step.rows and self._context.readers:
            raise SourceError(
                "a source gives fewer samples than the readers of the definition",
                given=f"{fed.rows} samples",
                expected=step.rows,
            )
        return step if fed.rows == step.rows else replace(step, rows=fed.rows), fed

    def _compute(self, step: BatchStep, count: int) -> None:
        """Compute a batch in this thread, with up to `count` - 1 following batches of the epoch."""
        # A stream may lend its memory until its next call if the chunk copies everything before that.
        fed_step, fed = self._feed(step, at_once=self._all_dense)
        steps, rows = self._together(fed_step, count)
        try:
            self._ahead += self._run_here([step, *steps[1:]], Chunk(fed_step, rows, self._allocate(len(rows)), fed))
        except Exception:
            if len(steps) == 1:
                self.close()
                raise
            # The bad sample may belong to a later batch. The batches before it are kept, and its own raises the error.
            self._compute_up_to_error(steps)

    def _compute_up_to_error(self, steps: Sequence[BatchStep]) -> None:
        for step in steps:
            rows = self._context.local_rows(step.rows)
            try:
                self._ahead += self._run_here([step], Chunk(step, rows, self._allocate(len(rows))))
            except Exception:
                if self._ahead:
                    return
                self.close()
                raise

    def _run_here(self, steps: Sequence[BatchStep], chunk: Chunk) -> list[HostBatch]:
        """Compute the batches of a chunk in this thread."""
        result = self._program.run_rows(chunk)
        filled = [list(of) if c is None else c for c, of in zip(chunk.slots, result.columns, strict=True)]
        return [batch.with_failed(result.failed) for batch in _split(steps, len(chunk.rows), filled, ())]

    def _submit_chunks(self, step: BatchStep, *, alone: bool = False) -> list[HostBatch]:
        """Submit the chunks of a batch, together with the following batch if they are computed in pairs."""
        fed_step, fed = self._feed(step)
        steps, rows = self._together(fed_step, 2 if not alone and self._in_pairs(fed_step.rows) else 1)
        columns = self._allocate(len(rows))
        scheduler, executor = self._program.scheduler, self._context.executor
        # A batch that is cheap enough for a pair is too cheap for several chunks.
        count = 1 if len(steps) > 1 else scheduler.chunks(len(rows), scheduler.workers(executor.workers), self._depth)
        bounds = pairwise([len(rows) * chunk // count for chunk in range(count + 1)])
        chunks = [
            Chunk(fed_step, rows[start:stop], [None if c is None else c[start:stop] for c in columns], fed)
            for start, stop in bounds
        ]
        futures = tuple([executor.compute(self._program, chunk) for chunk in chunks])
        return _split([step, *steps[1:]], len(rows), columns, futures)

    def _together(self, step: BatchStep, count: int) -> tuple[list[BatchStep], Indices]:
        """Return the steps of up to `count` consecutive batches of an epoch, and the numbers of all their rows."""
        steps = [step]
        while len(steps) < count and self._program.consecutive(step.rows):
            following = self._next_step(steps[-1])
            # Random numbers depend on the epoch, and a frame has only one. The last batch of an epoch may be shorter.
            if (following.epoch, following.rows) != (step.epoch, step.rows):
                break
            steps.append(following)
        rows = self._context.local_rows(step.rows)
        return steps, rows if len(steps) == 1 else np.concatenate([rows + n * step.rows for n in range(len(steps))])

    def _allocate(self, rows: int) -> tuple[Array | None, ...]:
        return tuple(
            [None if shape is None else self._buffers.empty((rows, *shape), dtype) for shape, dtype in self._columns]
        )


def _shutdown_nowait(executor: ChunkExecutor, abandon_read_ahead: Callable[[], None]) -> None:
    executor.shutdown_nowait()
    abandon_read_ahead()


def _split(
    steps: Sequence[BatchStep], rows: int, columns: Sequence[Any], chunks: tuple[Future[ChunkResult], ...]
) -> list[HostBatch]:
    """Return the batches of some steps, which have equal parts of the `rows` rows of the columns."""
    if len(steps) == 1:
        return [HostBatch(steps[0], tuple(columns), chunks)]
    bounds = pairwise([rows * number // len(steps) for number in range(len(steps) + 1)])
    return [
        HostBatch(step, tuple([column[start:stop] for column in columns]), chunks, slice_index=number)
        for number, (step, (start, stop)) in enumerate(zip(steps, bounds, strict=True))
    ]
