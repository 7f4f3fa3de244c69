"""Host batches, prepared ahead of the consumer.

The contract, which the code below must keep:

* **Who runs what.** The consumer's thread calls `begin`, `take` and `close`, one at a time. A batch is cut into pieces,
  runs of rows; each is one function on the pool. Pieces share nothing that changes: they write disjoint rows of the
  batch's buffers.
* **Light batches.** What costs less than handing it to a thread is computed in `take`, several batches of an epoch in
  one go, as if they were one larger batch: rows are independent, so it does not show.
* **The GIL.** Samples that take microseconds hand the interpreter's lock back and forth so often that two threads are
  slower than one. Pieces of such work take turns: one of them runs, the others wait without working.
* **Order.** `take` returns the batch of the step it is given. Batches of the steps that follow are begun ahead, at most
  `depth` of them; nothing depends on which piece ends first.
* **Memory.** At most depth + 1 batches exist here. A batch that was taken belongs to the consumer: its buffers are
  not written again while anything can reach them (`penstock.host.buffers`).
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
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.data.order import Indices
from penstock.data.schedule import Step
from penstock.data.source import Column
from penstock.host.buffers import Buffers
from penstock.host.pool import Pool
from penstock.host.program import HostProgram
from penstock.plan.stages import SampleStage, WholeBatchStage

_PIECE_BYTES = 4 << 20
"""A piece of a batch that needs no sample kernel is worth a thread of its own from this size on."""

_CHEAP_ROW = 60e-6
"""Seconds of a sample below which threads take turns (measured: 28x28 JPEGs, 20 us each, cost 40 on two threads)."""

_LIGHT_BATCH = 500e-6
"""Seconds of a batch below which it is not handed to a thread (measured: to hand over costs 300 us of CPU time)."""


_GROUP = 8
"""At most so many light batches are computed in one go, so that Python's cost per batch is shared."""

_AT_ONCE = nullcontext()


class _Pace:
    """What host work has cost so far, and how it is done best.

    Args:
        by_sample: whether the work goes sample by sample; batch kernels hold the interpreter's lock for long enough.
    """

    def __init__(self, by_sample: bool) -> None:
        self._by_sample = by_sample
        self._turn = threading.Lock()
        self._seconds = self._rows = 0.0

    @property
    def _row_seconds(self) -> float:
        return self._seconds / self._rows if self._rows else math.inf

    @property
    def cheap(self) -> bool:
        """Whether samples are so cheap that threads are slower than one."""
        return self._by_sample and self._row_seconds < _CHEAP_ROW

    def batches_per_turn(self, rows: int) -> int:
        """How many batches of so many rows are computed at once in the consumer's thread; 0 if threads are better."""
        seconds = self._row_seconds * rows
        return 0 if seconds > _LIGHT_BATCH else min(_GROUP, int(2 * _LIGHT_BATCH / max(seconds, 1e-9)))

    def run(self, piece: Callable[[], tuple[Column, ...]], rows: int) -> tuple[Column, ...]:
        """Do a piece of work, in turn with others if it is cheap, and measure it."""
        with self._turn if self.cheap else _AT_ONCE:
            start = time.thread_time()
            result = piece()
            self._seconds = 0.8 * self._seconds + time.thread_time() - start
            self._rows = 0.8 * self._rows + rows
            return result


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
        self._specs = [value.spec for value in program.plan.results]
        self._row_bytes = sum(spec.nbytes for spec in self._specs if spec.dense)
        self._whole = any(isinstance(stage, WholeBatchStage) for stage in program.plan.stages)
        self._by_sample = any(isinstance(stage, SampleStage) for stage in program.plan.stages)
        self._pace = _Pace(self._by_sample)
        self._buffers = Buffers(keep=depth + 2)
        self._finalizer = weakref.finalize(self, pool.close)

    def begin(self, step: Step) -> tuple[Future[None], ...]:
        """Begin a batch that will be taken next, if that has not been done, and do not wait for it.

        Returns:
            Its pieces of work; `take` raises what the first of them raises. A light batch is made now, and has none.

        Raises:
            SampleError: a sample of a light batch is bad.
        """
        if self._ahead and self._ahead[0].step != step:
            self._drop()
        light = min(self._pace.batches_per_turn(step.rows), 1 if self._whole else _GROUP)
        if not self._ahead and light:
            self._compute(step, light)
        elif not self._ahead:
            self._ahead.append(self._begin(step))
        return self._ahead[0].pieces

    def take(self, step: Step) -> tuple[Column, ...]:
        """The columns of a batch, in the order of the plan's results.

        Raises:
            SampleError: a sample of this batch is bad.
        """
        self.begin(step)
        while len(self._ahead) <= self._depth and not self._pace.batches_per_turn(step.rows):
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

    def _compute(self, step: Step, count: int) -> None:
        """Compute a batch now and here, and, for the same overhead, those that follow it in the epoch."""
        steps = [step]
        while len(steps) < count and self._program.consecutive(step.rows):
            following = self._after(steps[-1])
            if (following.epoch, following.rows) != (step.epoch, step.rows):
                break
            steps.append(following)
        one = self._lanes(step.rows)
        lanes = one if len(steps) == 1 else np.concatenate([one + n * step.rows for n in range(len(steps))])
        buffers = self._empty(len(lanes))
        try:
            _run(self._program, self._pace, step, lanes, buffers, 0, len(lanes))
        except Exception:
            if len(steps) > 1:  # perhaps a sample of a later batch: this one may be good
                return self._compute(step, 1)
            self.close()
            raise
        for number, each in enumerate(steps):
            rows = slice(number * len(one), (number + 1) * len(one))
            self._ahead.append(HostBatch(each, tuple([buffer[rows] for buffer in buffers]), ()))
        return None

    def _begin(self, step: Step) -> HostBatch:
        """A batch on the pool."""
        lanes = self._lanes(step.rows)
        rows = len(lanes)
        buffers = self._empty(rows)
        count = self._pieces(rows)
        cuts = pairwise([rows * piece // count for piece in range(count + 1)])
        work = partial(_run, self._program, self._pace, step, lanes, buffers)
        return HostBatch(step, buffers, tuple([self._pool.submit(work, start, stop) for start, stop in cuts]))

    def _empty(self, rows: int) -> tuple[Column, ...]:
        return tuple(
            [
                self._buffers.empty((rows, *spec.sizes), dtype) if spec.dense else [np.empty(0, dtype)] * rows
                for spec, dtype in zip(self._specs, self._dtypes, strict=True)
            ]
        )

    def _pieces(self, rows: int) -> int:
        if self._whole:
            return 1
        if self._by_sample:
            return 1 if self._pace.cheap else max(1, min(self._pool.workers, rows))
        return max(1, min(self._pool.workers, rows, rows * self._row_bytes // _PIECE_BYTES))


def _run(
    program: HostProgram, pace: _Pace, step: Step, lanes: Indices, buffers: tuple[Column, ...], start: int, stop: int
) -> None:
    whole = stop - start == len(lanes)
    slots = [None if isinstance(buffer, list) else buffer if whole else buffer[start:stop] for buffer in buffers]
    columns = pace.run(partial(program.run, step, lanes if whole else lanes[start:stop], slots), stop - start)
    for buffer, column in zip(buffers, columns, strict=True):
        if isinstance(buffer, list):
            buffer[start:stop] = list(column)
