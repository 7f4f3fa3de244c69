"""Stream of a source that worker processes call."""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from penstock.core import Column
from penstock.errors import InternalError, SourceError
from penstock.sources.external.array_conversion import copy_column
from penstock.sources.external.external_stream import ExternalStream, InProcessStream
from penstock.sources.external.processes.task_pickling import PickledTask
from penstock.sources.external.processes.worker_processes import MAX_LOST, PendingRequest, WorkerPool, WorkerProcess
from penstock.sources.stream import BatchRequest, Columns, EndOfStreamError


class ParallelStream(ExternalStream):
    """Stream that requests batches from worker processes, some of them in advance.

    If the source returns samples, the rows of a batch are divided between all workers. If it returns batches, the
    workers take turns. If a worker ends by itself, another one computes the batch again.

    A source that can only continue (an iterator) is called by a single worker. If that ends, its position is lost: the
    next batch is an error, and the source then restarts in another worker.

    Args:
        source: The stream that the workers run.
        payload: `source`, pickled.
        workers: The worker processes.
        ahead: Number of batches to request before they are needed.
        alone: True if only one worker calls the source.
    """

    def __init__(
        self, source: InProcessStream, payload: PickledTask, workers: WorkerPool, *, ahead: int, alone: bool
    ) -> None:
        super().__init__(source.kinds, several=source.several, batch=source.batched, name=source.name)
        self.prefetch_depth = ahead
        self.seek_obstacle, self.continues = source.seek_obstacle, source.continues
        self._workers, self._alone = workers, alone
        self._number = workers.add(payload)
        self._pending: dict[BatchRequest, Sequence[PendingRequest]] = {}
        self._probed: deque[Columns] = deque()
        # Worker of a source that can only continue, once it has begun.
        self._host: WorkerProcess | None = None

    def prefetch(self, request: BatchRequest) -> None:
        """Request a batch unless that was already done. If the source can only continue, request a few more."""
        if request in self._pending or request in self._produced:
            return
        if self._host is not None and self._host.failed:  # `produce` raises the error
            return
        if self.seek_obstacle is None or len(self._pending) <= self.prefetch_depth:
            self._pending[request] = self._ask(request)

    def produce(self, request: BatchRequest) -> Columns:
        """Wait for a batch."""
        if self._probed:
            return self._checked(self._probed.popleft(), request)
        return self._checked(self._result(request, self._tickets), request)

    def probe(self) -> Columns:
        """Return the first sample.

        A source that can only continue cannot return it again, so its batch is kept for later.
        """
        request = BatchRequest(0, 0, 1, 1)
        first = self._result(request, self._ask)
        if self.seek_obstacle is not None:
            self._probed.append(first)
        return tuple([column[:1] for column in self._checked(first)])

    def probe_later(self, number: int) -> Columns:
        """Return a sample after the first; of a source of batches, one of the first batch."""
        if self.seek_obstacle is None:
            columns = self._checked(self._result(BatchRequest(0, 0, number + 1, number + 1), self._ask))
        else:
            if not self._probed:
                self.probe()
            columns = self._checked(self._probed[0])
        if number >= len(columns[0]):
            raise EndOfStreamError
        return tuple([column[number : number + 1] for column in columns])

    def rewind(self) -> None:
        """Forget the batches that were prefetched. A source that can only continue keeps its requests."""
        super().rewind()
        if self.seek_obstacle is None:
            self._forget(list(self._pending))

    def close(self) -> None:
        """End the workers. A source that can only continue restarts in new workers."""
        super().close()
        self._pending.clear()
        self._host = None
        self._workers.close()

    def _result(self, request: BatchRequest, ask: Callable[[BatchRequest], Sequence[PendingRequest]]) -> Columns:
        """Return a batch. If a worker ends by itself meanwhile, the batch is requested again."""
        for attempt in range(1, MAX_LOST + 1):
            tickets = ask(request)
            try:
                return self._answer(tickets, request)
            except SourceError:
                lost = any(ticket.lost for ticket in tickets)
                if lost:
                    self._host = None
                if not lost or attempt == MAX_LOST or self.seek_obstacle is not None:
                    raise
        raise InternalError("a batch has no result")

    def _ask(self, request: BatchRequest) -> Sequence[PendingRequest]:
        # Sources share the workers, so each counts those that its own requests replace.
        before = self._workers.replaced
        try:
            return self._submitted(request)
        finally:
            self.replaced_workers += self._workers.replaced - before

    def _submitted(self, request: BatchRequest) -> Sequence[PendingRequest]:
        count = self._workers.count
        if self.batched:
            worker = self._number if self._alone else request.iteration
            ticket = self._workers.submit(worker, self._number, (request, None))
            self._host = None if self.seek_obstacle is None else ticket.process
            return [ticket]
        # At most one part per row: a source must not return an empty part.
        parts = min(count, request.rows)
        cuts = pairwise([request.rows * part // parts for part in range(parts + 1)])
        return [self._workers.submit(worker, self._number, (request, range(*rows))) for worker, rows in enumerate(cuts)]

    def _tickets(self, request: BatchRequest) -> Sequence[PendingRequest]:
        """Return the requests of a batch; if the source can only continue, the oldest ones.

        Raises:
            SourceError: The source can only continue, and its worker has ended by itself.
        """
        if self._host is not None and self._host.failed:
            host, self._host = self._host, None
            self._pending.clear()
            raise host.ended(self._describe(request))
        # Requests whose worker ended, and those that a seek has skipped, are dropped.
        for other, tickets in list(self._pending.items()):
            if any(ticket.lost for ticket in tickets) or (
                self.seek_obstacle is None and (other.epoch, other.first) < (request.epoch, request.first)
            ):
                self._forget([other])
        if self.seek_obstacle is None or not self._pending:
            self.prefetch(request)
            return self._pending.pop(request)
        return self._pending.pop(next(iter(self._pending)))

    def _forget(self, requests: Sequence[BatchRequest]) -> None:
        for request in requests:
            for ticket in self._pending.pop(request):
                ticket.discard()

    def _answer(self, tickets: Sequence[PendingRequest], request: BatchRequest) -> Columns:
        """Return the parts of a batch, concatenated and copied out of shared memory."""
        try:
            parts = [ticket.result(self._describe(request)) for ticket in tickets]
            return tuple([_joined(column) for column in zip(*parts, strict=True)])
        except EndOfStreamError:
            if self.seek_obstacle is None:
                self._forget([other for other in self._pending if other.epoch == request.epoch])
            raise
        except BaseException as error:
            if not isinstance(error, Exception):
                # A response may be half received, after which the connection is out of step.
                self._workers.close()
            raise
        finally:
            # Returns the shared memory to the workers.
            for ticket in tickets:
                ticket.discard()

    def _describe(self, request: BatchRequest) -> str:
        return f"{self.name}, batch {request.iteration} of epoch {request.epoch}"


def _joined(parts: Sequence[Column]) -> Column:
    dense = [part for part in parts if isinstance(part, np.ndarray)]
    if len(dense) == len(parts) and len({(part.dtype, part.shape[1:]) for part in dense}) == 1:
        return dense[0].copy() if len(dense) == 1 else np.concatenate(dense)
    return copy_column([sample for part in parts for sample in part])
