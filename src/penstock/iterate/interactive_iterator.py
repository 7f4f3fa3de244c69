"""Loops, random access and the repr of an iterator: what a user does by hand, in a notebook or a debugger."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from types import TracebackType
from typing import Annotated, Any, Self

import jax
import numpy as np

from penstock.core.stage_timers import StageTimers
from penstock.engine.executable import Executable, lead_reader
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.engine.run import Run
from penstock.errors import UsageError
from penstock.graph import Node, Range, check_annotations
from penstock.iterate import dry_run
from penstock.iterate.epoch_schedule import check_seeks
from penstock.iterate.iterator_state import StateIdentity, operator_arrays
from penstock.pipeline.pipeline import Pipeline
from penstock.pipeline.run_cursor import RunCursor
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.sources.stream import EndOfStreamError

Batch = dict[str, jax.Array]


class InteractiveIterator(ABC):
    """Base class of `DataIterator` with the methods that a user calls by hand. Its state belongs to `DataIterator`."""

    batch_size: int
    _cursor: RunCursor[jax.Array]
    _executable: Executable
    _identity: StateIdentity
    _lock: threading.RLock
    _order_seed: int
    _pipeline: Pipeline
    _readings: Callable[[int], dict[Node, ShardedReader]]
    _schedule: Schedule
    _seed: int
    # A run of its own, so that random access does not discard the batches that the iterator prepares.
    _random_run: tuple[tuple[int, int], Run] | None = None

    @property
    @abstractmethod
    def element_spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Shape, dtype and sharding of each array of a batch."""

    @abstractmethod
    def __iter__(self) -> Iterator[Batch]: ...

    @abstractmethod
    def _form(self, arrays: Sequence[Any]) -> Any: ...

    @abstractmethod
    def next_epoch(self) -> None:
        """Begin the next epoch."""

    @abstractmethod
    def close(self) -> None:
        """Stop the threads."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        # Without the lock: another thread holds it while it waits for a batch, and a debugger must not wait.
        step, of = self._cursor.step, self._schedule.batches_per_epoch
        number = of if of is not None and self._schedule.is_epoch_end(step) else step.row // self._schedule.stride
        outputs = ", ".join(
            f"{name} {struct.dtype}{list(struct.shape)}" for name, struct in self.element_spec.items()
        )
        total = "" if of is None else f" of {of}"
        name = self._executable.plan.graph.name
        return f"{type(self).__name__}({name}: {outputs}; epoch {step.epoch}, batch {number}{total})"

    @check_annotations
    def take(self, count: Annotated[int, Range(0)]) -> Iterator[Batch]:
        """Return an iterator over the next batches, which this iterator passes: at most `count`, and of one epoch.

        At the end of an epoch the next one begins, as in a `for` loop.

        Example:
            >>> from penstock import data_iterator, fn
            >>> iterator = data_iterator(lambda: {"x": fn.readers.arrays(range(6))})(batch_size=2)
            >>> [batch["x"].tolist() for batch in iterator.take(2)], [batch["x"].tolist() for batch in iterator]
            ([[0, 1], [2, 3]], [[4, 5]])
        """
        return islice(self, count)

    def epoch(self) -> Iterator[Batch]:
        """Begin an epoch and return an iterator over its batches.

        At the beginning of an epoch it is that epoch; anywhere else, including its end, the next one: the rest of the
        current epoch is skipped. A `for` loop over the iterator itself continues where it is.

        Raises:
            UsageError: The iterator is endless.

        Example:
            >>> from penstock import data_iterator, fn
            >>> iterator = data_iterator(lambda: {"x": fn.readers.arrays(range(6))})(batch_size=2)
            >>> next(iterator)["x"].tolist(), [batch["x"].tolist() for batch in iterator.epoch()]
            ([0, 1], [[0, 1], [2, 3], [4, 5]])
            >>> iterator
            DataIterator(<lambda>: x int32[2]; epoch 1, batch 3 of 3)
        """
        if self._schedule.batches_per_epoch is None and not self._schedule.length_unknown:
            raise UsageError(
                "an endless iterator has no epochs", fix="reader_name=... or size=...; or take(n), for a few batches"
            )
        self.next_epoch()
        return islice(self, None)

    @check_annotations
    def seek(self, epoch: Annotated[int, Range(0)], step: Annotated[int, Range(0)]) -> None:
        """Move to a batch, so that `next` returns it.

        Args:
            epoch: Number of the epoch, from 0.
            step: Number of the batch in the epoch, from 0.

        Raises:
            UsageError: The epoch has no such batch.
            StateError: The source of an input can only continue from its position, or an operator has a state, which
                depends on all batches before.

        Example:
            >>> from penstock import data_iterator, fn
            >>> iterator = data_iterator(lambda: {"x": fn.readers.arrays(range(6))})(batch_size=2)
            >>> iterator.seek(epoch=1000, step=2)
            >>> next(iterator)["x"].tolist()
            [4, 5]
        """
        with self._lock:
            target = self._step_of(epoch, step)
            if target != self._cursor.step:
                check_seeks(self._executable)
                # Raises now instead of with the next batch if operators have a state, which is unknown there.
                self._cursor.run.carried(target)
            self._cursor.seek(target)

    @check_annotations
    def batch_at(self, epoch: Annotated[int, Range(0)], step: Annotated[int, Range(0)]) -> Batch:
        """Return any batch without moving the iterator, at the same cost for every batch.

        It is the batch that an iterator over all batches from the first one returns. Bad samples do not count towards
        the limits of the iterator. In a job of several processes, all of them make the same call.

        Args:
            epoch: Number of the epoch, from 0.
            step: Number of the batch in the epoch, from 0.

        Raises:
            UsageError: The epoch has no such batch.
            SampleError: A sample of the batch is bad.
            StateError: As for `seek`.

        Example:
            >>> from penstock import data_iterator, fn
            >>> iterator = data_iterator(lambda: {"x": fn.readers.arrays(range(6))})(batch_size=2)
            >>> iterator.batch_at(epoch=5, step=1)["x"].tolist(), next(iterator)["x"].tolist()
            ([2, 3], [0, 1])
        """
        with self._lock:
            return self._form(self._compute(self._step_of(epoch, step), self._seed, self._order_seed))

    @check_annotations
    def replay(self, state: Any) -> Batch:
        """Return the batch that follows a state, without moving the iterator.

        Args:
            state: Result of `get_state`, of an iterator over the same definition and data.

        Raises:
            StateError: The state belongs to another definition or data set, or no batch of this iterator begins there.
            SampleError: A sample of the batch is bad.

        Example:
            >>> from penstock import data_iterator, fn
            >>> iterator = data_iterator(lambda: {"x": fn.readers.arrays(range(6))})(batch_size=2)
            >>> state, first = iterator.get_state(), next(iterator)
            >>> iterator.replay(state)["x"].tolist(), next(iterator)["x"].tolist()
            ([0, 1], [2, 3])
        """
        with self._lock:
            step, seed, order_seed = self._identity.step(
                state, self._schedule, lambda seed: self._readings(seed).values(), new_definition=False
            )
            step = self._schedule.batch_at_or_after(step)
            return self._form(self._compute(step, seed, order_seed, operator_arrays(state)))

    @check_annotations
    def sample(self, index: Annotated[int, Range(0)], epoch: Annotated[int, Range(0)] = 0) -> dict[str, np.ndarray]:
        """Return one sample as the definition delivers it in an epoch, without moving the iterator.

        Computes the batch that has the sample, since operators may combine the samples of a batch.

        Args:
            index: Index of the sample in the data set of the reader that determines the epoch, before shuffling.
            epoch: Number of the epoch, from 0, whose random numbers the sample gets.

        Returns:
            NumPy arrays without the axis of the batch, by the names of the outputs.

        Raises:
            UsageError: No batch of the epoch has the sample, or samples have no unique index.
            SampleError: A sample of the batch is bad.
            StateError: As for `seek`.

        Example:
            >>> from penstock import data_iterator, fn
            >>> @data_iterator
            ... def training():
            ...     x = fn.readers.arrays(range(1000), random_shuffle=True)
            ...     return {"x": x, "noisy": x + fn.random.uniform(range=[0.0, 0.5])}
            >>> sample = training(batch_size=10, seed=1).sample(137, epoch=3)
            >>> int(sample["x"]), sample["noisy"].shape
            (137, ())
        """
        with self._lock:
            number, row = self._place_of(index, epoch)
            batch = self.batch_at(epoch, number)
            # With the layout of `jax.pmap`, the devices are an axis before the rows.
            rows = len(self.element_spec[next(iter(batch))].shape) and next(iter(self.element_spec.values())).shape[0]
            stacked = rows != self.batch_size
            arrays = {name: np.asarray(array) for name, array in batch.items()}
            return {name: (a.reshape(-1, *a.shape[2:]) if stacked else a)[row] for name, a in arrays.items()}

    def _place_of(self, index: int, epoch: int) -> tuple[int, int]:
        """Return the number of the batch and the row in it that have a sample in an epoch."""
        lead = lead_reader(self._readings(self._order_seed))
        if lead is None or not lead.is_leader:
            raise UsageError(
                "sample() needs a reader that determines the epoch: its samples have the indices",
                fix="reader_name=...; or batch_at(epoch, step)",
            )
        if self._executable.layout.processes > 1:
            raise UsageError(
                "sample() returns a row of a batch, which other processes of this job may have",
                fix="call it in a program of one process; or batch_at(epoch, step), in all processes",
            )
        try:
            place = lead.row_of(epoch, index, self.batch_size)
        except ValueError:
            raise UsageError(
                "the reader selects or mixes samples, so that an index has no row or several",
                fix="batch_at(epoch, step)",
            ) from None
        batches = self._schedule.batches_per_epoch
        if place is None or (batches is not None and place[0] >= batches):
            raise UsageError(
                f"no batch of epoch {epoch} has this sample",
                given=f"index={index}",
                expected=f"a sample that the epoch visits, of {lead.orders[0].length} in the data set",
            )
        return place

    def _step_of(self, epoch: int, number: int) -> BatchStep:
        batches = self._schedule.batches_per_epoch
        if batches is None and epoch and not self._schedule.length_unknown:
            raise UsageError("an endless iterator has one epoch", given=f"epoch={epoch}", expected="0")
        if batches is not None and number >= batches:
            raise UsageError(
                "an epoch has no such batch", given=f"step={number}", expected=f"0 to {batches - 1}, as len() tells"
            )
        return self._schedule.step_of(epoch, number)

    def _compute(
        self, step: BatchStep, seed: int, order_seed: int, state: Sequence[Sequence[Any]] | None = None
    ) -> list[jax.Array]:
        """Return the arrays of a batch, without the cursor."""
        if dry_run.active_dry_run() is not None:
            raise dry_run.FirstBatchError
        if step != self._cursor.step:
            check_seeks(self._executable)
        elif self._executable.obstacles:
            # The source cannot give this batch twice, so the cursor keeps it for `next`.
            return self._cursor.peek()
        run = self._run_of(seed, order_seed)
        # Forgets the state that an earlier call has left; unknown states raise.
        run.resume(step, state)
        try:
            return run.next_batch(step)[0]
        except EndOfStreamError:
            raise UsageError(
                "the source ends before this batch", given=f"epoch {step.epoch}, row {step.row}"
            ) from None
        finally:
            run.close()

    def _run_of(self, seed: int, order_seed: int) -> Run:
        """Return a run that prepares nothing ahead."""
        if self._random_run is None or self._random_run[0] != (seed, order_seed):
            readings, pool = self._readings(order_seed), self._pipeline.pool()
            run = self._executable.start(readings, seed, pool, 0, self._schedule, StageTimers(), narrow=True)
            self._random_run = ((seed, order_seed), run)
        return self._random_run[1]
