"""The stream of a source that worker processes call."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from penstock.core.columns import Column
from penstock.sources.external.array_conversion import copy_column
from penstock.sources.external.external_stream import ExternalStream, InProcessStream
from penstock.sources.external.processes.worker_processes import PendingRequest, WorkerPool
from penstock.sources.stream import BatchRequest, Columns, EndOfStreamError


class ParallelStream(ExternalStream):
    """Asks worker processes for batches, some of them ahead.

    The rows of a batch of samples are divided between all workers, and whole batches are theirs in turn. A source that
    only goes on is called by one of them.

    Args:
        source: what they call.
        payload: it, pickled.
        workers: they.
        ahead: how many batches are asked for before they are needed.
        alone: whether only one worker calls it.
    """

    def __init__(
        self, source: InProcessStream, payload: bytes, workers: WorkerPool, *, ahead: int, alone: bool
    ) -> None:
        super().__init__(source.kinds, several=source.several, batch=source.batched, name=source.name)
        self.prefetch_depth = ahead
        self._obstacle = source.seek_obstacle
        self._workers, self._alone = workers, alone
        self._number = workers.add(payload)
        self._asked: dict[BatchRequest, Sequence[PendingRequest]] = {}
        self._probed: deque[Columns] = deque()

    @property
    def seek_obstacle(self) -> str | None:
        """The source's."""
        return self._obstacle

    def prefetch(self, turn: BatchRequest) -> None:
        """Ask for the batch of a turn, unless that has been done. Where the source only goes on, for some more."""
        if turn in self._asked or turn in self._made:
            return
        if self.seek_obstacle is None or len(self._asked) <= self.prefetch_depth:
            self._asked[turn] = self._ask(turn)

    def next(self, turn: BatchRequest) -> Columns:
        """Wait for a batch."""
        if self._probed:
            return self._checked(self._probed.popleft(), turn)
        return self._checked(self._answer(self._tickets(turn), turn), turn)

    def probe(self) -> Columns:
        """The first sample. A source that only goes on gives its batch later, not again."""
        turn = BatchRequest(0, 0, 1, 1)
        first = self._answer(self._ask(turn), turn)
        if self.seek_obstacle is not None:
            self._probed.append(first)
        return tuple([column[:1] for column in self._checked(first)])

    def rewind(self) -> None:
        """Go back behind what was delivered. A source that only goes on keeps what it was asked for."""
        super().rewind()
        if self.seek_obstacle is None:
            self._forget(list(self._asked))

    def close(self) -> None:
        """End the workers. A source that only goes on begins anew in new ones."""
        super().close()
        self._asked.clear()
        self._workers.close()

    def _ask(self, turn: BatchRequest) -> Sequence[PendingRequest]:
        count = self._workers.count
        if self.batched:
            worker = self._number if self._alone else turn.iteration
            return [self._workers.submit(worker, self._number, turn, None)]
        parts = min(count, turn.rows)
        cuts = pairwise([turn.rows * part // parts for part in range(parts + 1)])
        return [self._workers.submit(worker, self._number, turn, rows) for worker, rows in enumerate(cuts)]

    def _tickets(self, turn: BatchRequest) -> Sequence[PendingRequest]:
        """What was asked for a turn. Where the source only goes on: what it was asked for first."""
        for other, tickets in list(self._asked.items()):
            if any(ticket.lost for ticket in tickets) or (
                self.seek_obstacle is None and (other.epoch, other.iteration) < (turn.epoch, turn.iteration)
            ):
                self._forget([other])
        if self.seek_obstacle is None or not self._asked:
            self.prefetch(turn)
            return self._asked.pop(turn)
        return self._asked.pop(next(iter(self._asked)))

    def _forget(self, turns: Sequence[BatchRequest]) -> None:
        for turn in turns:
            for ticket in self._asked.pop(turn):
                ticket.discard()

    def _answer(self, tickets: Sequence[PendingRequest], turn: BatchRequest) -> Columns:
        """The parts of a batch, one behind the other, in memory of their own."""
        try:
            doing = f"{self.name}, batch {turn.iteration} of epoch {turn.epoch}"
            parts = [ticket.result(doing) for ticket in tickets]
            return tuple([_joined(column) for column in zip(*parts, strict=True)])
        except EndOfStreamError:
            if self.seek_obstacle is None:
                self._forget([other for other in self._asked if other.epoch == turn.epoch])
            raise
        except BaseException as error:
            if not isinstance(error, Exception) or any(ticket.lost for ticket in tickets):
                self._workers.close()  # what was half received is of no use
            raise
        finally:
            for ticket in tickets:
                ticket.discard()


def _joined(parts: Sequence[Column]) -> Column:
    dense = [part for part in parts if isinstance(part, np.ndarray)]
    if len(dense) == len(parts) and len({(part.dtype, part.shape[1:]) for part in dense}) == 1:
        return dense[0].copy() if len(dense) == 1 else np.concatenate(dense)
    return copy_column([sample for part in parts for sample in part])
