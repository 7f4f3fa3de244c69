"""Worker processes that compute chunks, straight into batch buffers in shared memory."""

from __future__ import annotations

import time
import weakref
from collections.abc import Collection
from concurrent.futures import Future

from penstock.core import Array, Column
from penstock.core.slice_recorder import active_recorder
from penstock.engine.host.chunk_executor import Chunk, ChunkExecutor, ChunkResult
from penstock.engine.host.host_program import HostProgram
from penstock.engine.host.process_task import ChunkCall, ChunkDetails, pickle_program
from penstock.engine.host.shared_buffers import SharedBuffers
from penstock.engine.host.worker_threads import ThreadExecutor
from penstock.errors import ContextError, InternalError, SourceError
from penstock.sources.external.processes.socket_channel import ShareSegment
from penstock.sources.external.processes.worker_main import GRACE
from penstock.sources.external.processes.worker_processes import MAX_LOST, WorkerPool, WorkerProcess
from penstock.sources.storage.byte_range import ReadCost


class ProcessExecutor(ChunkExecutor):
    """Executor that computes the chunks of one program in worker processes.

    A thread per worker sends it a chunk and waits, so the order, cancellation and end of chunks are those of
    `ThreadExecutor`. If a worker ends by itself, another one computes its chunk again.

    Args:
        workers: Number of processes. They start with the first chunks and end when the executor is closed or dropped,
            or when this process ends for any reason.
        readers: Number of additional threads, in all workers together, that wait for data.
        prefetched: Kinds of data to prefetch on these threads.
    """

    in_process = False
    read_executor = None
    prefetched: Collection[ReadCost] = ()

    def __init__(self, workers: int, readers: int = 0, prefetched: Collection[ReadCost] = (ReadCost.STORE,)) -> None:
        self.workers = workers
        self._threads = ThreadExecutor(workers, name="penstock-process")
        self._pool = WorkerPool(workers)
        self._buffers = SharedBuffers()
        self._readers, self._prefetched = -(-readers // workers), prefetched
        # A weak reference: the program refers to this executor, which would otherwise not end when it is dropped.
        self._task: tuple[weakref.ref[HostProgram], int] | None = None
        self._lost = 0

    def prepare(self, program: HostProgram) -> None:
        """Pickle the program, so that what workers cannot compute is an error before the first batch.

        Raises:
            DefinitionError, ArgumentTypeError: The workers cannot compute it.
        """
        if self._task is None:
            task = pickle_program(program, self.workers, self._readers, self._prefetched)
            self._task = weakref.ref(program), self._pool.add(task)
        elif self._task[0]() is not program:
            raise InternalError("worker processes compute one program")

    def compute(self, program: HostProgram, chunk: Chunk) -> Future[ChunkResult]:
        """Compute a chunk in the next free worker.

        Raises:
            SourceError: In the future: several workers ended while they computed the chunk.
        """
        self.prepare(program)
        return self._threads.submit(self._compute, program, chunk, self._pool.closes)

    def empty(self, size: int) -> Array:
        """Return shared memory, aligned to a page."""
        return self._buffers.empty(size)

    def summary(self) -> str:
        """Describe the workers."""
        count = self._lost + self._pool.replaced
        lost = f", {count} replaced after they ended" if count else ""
        return f"{self.workers} worker process{'es' if self.workers > 1 else ''}{lost}"

    @property
    def pids(self) -> tuple[int, ...]:
        """Numbers of the processes that run now."""
        return self._pool.pids

    def close(self, patience: float | None = None) -> None:
        """Cancel chunks that have not started, and end the processes within about a second."""
        self._threads.shutdown_nowait()
        self._pool.close()
        self._threads.close(patience)

    def shutdown_nowait(self) -> None:
        """Cancel chunks that have not started. The processes end when the executor is dropped."""
        self._threads.shutdown_nowait()

    def _compute(self, program: HostProgram, chunk: Chunk, closes: int) -> ChunkResult:
        for attempt in range(1, MAX_LOST + 1):
            process = self._pool.borrow(closes)
            try:
                return self._ask(process, program, chunk)
            except ContextError:
                # Until the worker has ended, it may still write into the buffers of this chunk.
                process.end(time.monotonic() + 2 * GRACE)
                raise
            except SourceError:
                # An error of the chunk itself leaves the worker open.
                if not process.closed:
                    raise
                self._lost += 1
                if attempt == MAX_LOST:
                    raise
            finally:
                self._pool.give_back(process)
        raise InternalError("a chunk has no result")

    def _ask(self, process: WorkerProcess, program: HostProgram, chunk: Chunk) -> ChunkResult:
        """Send a chunk to a worker and wait for its result."""
        assert self._task is not None  # `compute` has prepared it
        _, task = self._task
        slots = [None if slot is None else self._buffers.locate(slot) for slot in chunk.slots]
        for number in {slot.segment for slot in slots if slot is not None} - process.buffers:
            process.send(ShareSegment(number), self._buffers.descriptor(number))
            process.buffers.add(number)
        freed = self._buffers.freed(process.buffers)
        process.buffers -= freed
        recorder = active_recorder()
        call = ChunkCall(chunk.step, chunk.rows, slots, recorder is not None)
        step, first, last = chunk.step, int(chunk.rows[0]), int(chunk.rows[-1])
        response = process.submit(task, call, tuple(freed))
        try:
            columns = response.result(f"rows {first} to {last} of the batch at row {step.row} of epoch {step.epoch}")
            details: ChunkDetails = response.details
            copies = [_copied(column, ragged) for column, ragged in zip(columns, details.ragged, strict=True)]
        finally:
            response.discard()
        program.context.timers.merge(details.timings)
        program.scheduler.record(details.seconds, len(chunk.rows))
        if recorder is not None:
            recorder.merge(details.slices, f"penstock worker process {process.pid}")
        rest = iter(copies)
        return ChunkResult(tuple([next(rest) if slot is None else slot for slot in chunk.slots]), details.failed)


def _copied(column: Column, ragged: bool) -> Column:
    """Copy a column out of the memory of a worker."""
    return [sample.copy() for sample in column] if ragged or isinstance(column, list) else column.copy()
