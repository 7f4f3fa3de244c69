"""Host batches, prepared ahead of the consumer.

The contract, which the code below must keep:

* **Who runs what.** The consumer's thread calls `take` and `close`. A batch is cut into pieces, runs of rows; each is
  one function on the pool. Pieces share nothing that changes: they write disjoint rows of the batch's buffers.
* **The GIL.** Samples that take microseconds hand the interpreter's lock back and forth so often that two threads are
  slower than one. Pieces of such work take turns: one of them runs, the others wait without working.
* **Order.** `take` returns the batch of the step it is given. Batches of the steps that follow are begun ahead, at most
  `depth` of them; nothing depends on which piece ends first.
* **Memory.** At most depth + 1 batches exist here. A batch that was taken belongs to the consumer: its buffers are
  never written again.
* **Failure.** The first failing piece, in the order of rows, ends the run of the feed: what has not begun is dropped,
  what runs is waited for, the threads end, and `take` raises the cause. Nothing is skipped: the same step, taken
  again, is computed again.
* **A jump.** Taking another step than the one that was expected drops what was begun ahead.
* **The end.** `close`, and dropping the last reference to the feed, end the threads in the same way. No piece holds
  the feed, so a loop that is left by `break` or an exception leaves nothing running once the iterator is gone.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.data.order import Indices
from penstock.data.schedule import Step
from penstock.data.source import Array, Column
from penstock.data.spec import Spec
from penstock.host.buffers import aligned_empty
from penstock.host.pool import Pool
from penstock.host.program import HostProgram
from penstock.plan.stages import SampleStage

_PIECE_BYTES = 4 << 20
"""A piece of a batch that needs no sample kernel is worth a thread of its own from this size on."""

_CHEAP_ROW = 60e-6
"""Seconds of a sample below which threads take turns (measured: 28x28 JPEGs, 20 us each, cost 40 on two threads)."""


class _Turns:
    """Whether pieces run side by side or take turns, from what their rows have cost so far.

    Args:
        by_sample: whether the work goes sample by sample; batch kernels hold the lock for long enough.
    """

    def __init__(self, by_sample: bool) -> None:
        self._by_sample = by_sample
        self._lock = threading.Lock()
        self._row_seconds = math.inf

    @property
    def cheap(self) -> bool:
        return self._by_sample and self._row_seconds < _CHEAP_ROW

    def run(self, piece: Callable[[], None], rows: int) -> None:
        with self._lock if self.cheap else nullcontext():
            start = time.thread_time()
            piece()
            self._row_seconds = (time.thread_time() - start) / max(rows, 1)


@dataclass(frozen=True)
class HostBatch:
    """A batch in the making: a buffer per result, and the pieces of work that fill them."""

    step: Step
    buffers: tuple[Any, ...]
    pieces: tuple[Future[None], ...]

    def wait(self) -> tuple[Column, ...]:
        """The finished columns.

        Raises:
            PenstockError: what the first failing piece raised.
        """
        for piece in self.pieces:
            piece.result()
        return self.buffers

    def drop(self) -> None:
        """Give up the pieces that have not begun."""
        for piece in self.pieces:
            piece.cancel()


class Feed:
    """Gives the host's results batch by batch, while the next ones are being prepared.

    Args:
        program: what is computed.
        lanes: the numbers of the rows that this process computes, for a batch of so many rows.
        dtypes: per result, the dtype to deliver.
        pool: where pieces run; the feed closes it.
        depth: how many batches are begun ahead.
        after: the step that follows another.
    """

    def __init__(
        self,
        program: HostProgram,
        lanes: Callable[[int], Indices],
        dtypes: Sequence[np.dtype[Any]],
        pool: Pool,
        depth: int,
        after: Callable[[Step], Step],
    ) -> None:
        self._program = program
        self._lanes = lanes
        self._dtypes = tuple(dtypes)
        self._pool = pool
        self._depth = depth
        self._after = after
        self._ahead: deque[HostBatch] = deque()
        self._by_sample = any(isinstance(stage, SampleStage) for stage in program.plan.stages)
        self._turns = _Turns(self._by_sample)
        self._finalizer = weakref.finalize(self, pool.close)

    def take(self, step: Step) -> tuple[Column, ...]:
        """The columns of a batch, in the order of the plan's results.

        Raises:
            SampleError: a sample of this batch is bad.
        """
        if self._ahead and self._ahead[0].step != step:
            self._drop()
        if not self._ahead:
            self._ahead.append(self._begin(step))
        while len(self._ahead) <= self._depth:
            self._ahead.append(self._begin(self._after(self._ahead[-1].step)))
        batch = self._ahead.popleft()
        try:
            return batch.wait()
        except BaseException:
            batch.drop()
            self.close()
            raise

    def close(self) -> None:
        """End the threads and forget what was begun. The feed may be used again."""
        self._drop()
        self._pool.close()

    def _drop(self) -> None:
        for batch in self._ahead:
            batch.drop()
        self._ahead.clear()

    def _begin(self, step: Step) -> HostBatch:
        lanes = self._lanes(step.rows)
        specs = [value.spec for value in self._program.plan.results]
        buffers = tuple(_buffer(len(lanes), spec, dtype) for spec, dtype in zip(specs, self._dtypes, strict=True))
        cuts = np.linspace(0, len(lanes), self._pieces(len(lanes), specs) + 1).astype(int).tolist()
        pieces = tuple(
            self._pool.submit(_run, self._program, self._turns, step, lanes, buffers, start, stop)
            for start, stop in pairwise(cuts)
        )
        return HostBatch(step, buffers, pieces)

    def _pieces(self, rows: int, specs: Sequence[Spec]) -> int:
        if self._by_sample:
            return 1 if self._turns.cheap else max(1, min(self._pool.workers, rows))
        size = sum(math.prod(spec.sizes) * spec.dtype.itemsize for spec in specs if spec.dense)
        return max(1, min(self._pool.workers, rows, rows * size // _PIECE_BYTES))


def _buffer(rows: int, spec: Spec, dtype: np.dtype[Any]) -> Column:
    if spec.dense:
        return aligned_empty((rows, *spec.sizes), dtype)
    return [np.empty(0, dtype)] * rows


def _run(
    program: HostProgram,
    turns: _Turns,
    step: Step,
    lanes: Indices,
    buffers: tuple[Column, ...],
    start: int,
    stop: int,
) -> None:
    def piece() -> None:
        slots: list[Array | None] = [b[start:stop] if isinstance(b, np.ndarray) else None for b in buffers]
        columns = program.run(step, lanes[start:stop], slots)
        for buffer, column in zip(buffers, columns, strict=True):
            if isinstance(buffer, list):
                buffer[start:stop] = list(column)

    turns.run(piece, stop - start)
