"""Methods of an iterator that a user calls by hand: loops over a part of the data, any batch, a figure, the repr."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from types import TracebackType
from typing import Annotated, Any, Self

import jax

from penstock.core.stage_timers import StageTimers
from penstock.core.warn_once import warn_once
from penstock.engine.executable import Executable, lead_reader
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.engine.jobs.members import IteratorMembership
from penstock.engine.run import Run
from penstock.errors import StateError, UsageError
from penstock.graph import Node, Range, check_annotations
from penstock.iterate.iterator_html import iterator_html
from penstock.iterate.next_batch_figure import show_next
from penstock.pipeline.pipeline import Pipeline
from penstock.pipeline.run_cursor import RunCursor
from penstock.pipeline.run_state import StateIdentity, operator_arrays
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.sources.stream import EndOfStreamError


class InteractiveIterator(ABC):
    """Base class of `DataIterator`, which sets the attributes."""

    batch_size: int
    output_map: list[str]
    _cursor: RunCursor[jax.Array]
    _executable: Executable
    _identity: StateIdentity
    _lock: threading.RLock
    _membership: IteratorMembership | None
    _names: Sequence[str]
    _order_seed: int
    _pipeline: Pipeline
    _readings: Callable[[int], dict[Node, ShardedReader]]
    _schedule: Schedule
    _seed: int

    # Seeds and a run of its own, so that access to any batch does not discard the batches that the iterator prepares.
    _side_run: tuple[tuple[int, int], Run] | None = None

    @abstractmethod
    def __iter__(self) -> Iterator[Any]: ...

    @abstractmethod
    def next_epoch(self) -> None:
        """Begin the next epoch."""

    @abstractmethod
    def _form(self, arrays: Sequence[Any]) -> Any: ...

    @abstractmethod
    def _peek(self) -> list[jax.Array]: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop the threads and free the prepared batches, as dropping the iterator does. The next batch restarts it."""
        self._cursor.close()

    def __repr__(self) -> str:
        from penstock.plan.explain import describe_data  # noqa: PLC0415  # for texts alone

        outputs = ", ".join(
            f"{name} {struct.dtype}{list(struct.shape)}"
            for name, struct in zip(self._names, self._structs(), strict=True)
        )
        lead = lead_reader(self._readings(self._order_seed))
        data = f"{describe_data(lead.readers)}; " if lead is not None and lead.is_leader else ""
        return f"{type(self).__name__}({self._executable.plan.graph.name}: {outputs}; {data}{self._place()})"

    def _place(self) -> str:
        """Return the position as text."""
        # Without the lock: another thread holds it while it waits for a batch, and a debugger must not wait.
        step, total = self._cursor.step, self._schedule.batches_per_epoch
        count = "" if total is None else f" of {total}"
        return f"epoch {step.epoch}, batch {self._schedule.batches_before(step)}{count}"

    _repr_html_ = iterator_html

    @check_annotations
    def take(self, count: Annotated[int, Range(0)]) -> Iterator[Any]:
        """Return an iterator over the next batches: at most `count`, and of one epoch.

        The iterator itself advances. At the end of an epoch the next one begins, as in a `for` loop.

        Example:
            >>> from penstock import data_iterator, fn
            >>> @data_iterator
            ... def numbers():
            ...     return {"x": fn.readers.arrays([0, 1, 2, 3, 4, 5])}
            >>> iterator = numbers(batch_size=2)
            >>> [batch["x"].tolist() for batch in iterator.take(2)], [batch["x"].tolist() for batch in iterator]
            ([[0, 1], [2, 3]], [[4, 5]])
        """
        return islice(self, count)

    @property
    def is_endless(self) -> bool:
        """True if epochs have no end. False if an external source ends them, although their length is unknown."""
        return self._schedule.batches_per_epoch is None and not self._schedule.length_unknown

    def ends_here(self) -> bool:
        """Return True at the end of an epoch, also if only an external source knows it.

        Such a source is asked for the next batch, and `at_end` is True after that: a loop that follows one which was
        left at the last batch would otherwise be empty. DALI's iterators know because they run ahead.
        """
        with self._lock:
            # After the last batch that `size` allows, asking would take the first batch of the next epoch.
            return self._cursor.ends_here() if self._cursor.step.row else self._cursor.at_end

    def _warn_if_empty(self) -> None:
        """Warn at the end of an epoch that has no batches, since a loop that trains on nothing looks like a success."""
        step = self._cursor.step
        if step.epoch and not step.row:
            warn_once(
                "empty epoch",
                "this epoch has no batches, because the external source ended in an earlier epoch",
                fix='fn.external_source(..., cycle="raise"), which restarts an iterable with each epoch',
            )

    def epoch(self) -> Iterator[Any]:
        """Begin an epoch and return an iterator over its batches.

        At the beginning of an epoch it is that epoch. Anywhere else it is the next one, and the rest of the current
        epoch is skipped. A `for` loop over the iterator itself continues where the iterator is.

        Raises:
            UsageError: The iterator is endless.

        Example:
            >>> from penstock import data_iterator, fn
            >>> @data_iterator
            ... def numbers():
            ...     return {"x": fn.readers.arrays([0, 1, 2, 3, 4, 5])}
            >>> iterator = numbers(batch_size=2)
            >>> next(iterator)["x"].tolist(), [batch["x"].tolist() for batch in iterator.epoch()]
            ([0, 1], [[0, 1], [2, 3], [4, 5]])
            >>> iterator
            DataIterator(numbers: x int32[2]; 6 samples; epoch 1, batch 3 of 3)
        """
        if self.is_endless:
            raise UsageError("an endless iterator has no epochs", fix="reader_name=... or size=...; or take(n)")
        self.next_epoch()
        return iter(self)

    @check_annotations
    def seek(self, epoch: Annotated[int, Range(0)], step: Annotated[int, Range(0)]) -> None:
        """Move to a batch, so that `next` returns it. The cost does not depend on the batch.

        Args:
            epoch: Number of the epoch, from 0.
            step: Number of the batch in the epoch, from 0.

        Raises:
            UsageError: The epoch has no such batch.
            StateError: The source of an input can only continue from its position, or an operator has a state, which
                depends on the batches before.

        Example:
            >>> from penstock import data_iterator, fn
            >>> @data_iterator
            ... def numbers():
            ...     return {"x": fn.readers.arrays([0, 1, 2, 3, 4, 5])}
            >>> iterator = numbers(batch_size=2)
            >>> iterator.seek(epoch=1000, step=2)
            >>> next(iterator)["x"].tolist()
            [4, 5]
        """
        with self._lock:
            target = self._step_of(epoch, step)
            if target != self._cursor.step:
                self._executable.check_seeks(target, self._schedule)
                self._cursor.run.resume(target, self._known_state(target))
            self._move(target)

    def _move(self, step: BatchStep, *, ended: bool = False) -> None:
        """Move to a step. Each process of a job must move to the same one, at the same batch.

        Args:
            step: The step.
            ended: True if an external source ended the epoch at this step. It is asked again.
        """
        if self._membership is not None:
            seeds = f"seeds {self._seed} and {self._order_seed}"
            self._membership.move(f"row {step.row} of epoch {step.epoch} with {seeds}")
        self._cursor.seek(step)
        if ended:
            self._cursor.ends_here()

    @check_annotations
    def batch_at(self, epoch: Annotated[int, Range(0)], step: Annotated[int, Range(0)]) -> Any:
        """Return any batch without moving the iterator. The cost does not depend on the batch.

        Bad samples of the batch do not count towards the limits of the iterator. In a job of several processes, all
        of them make the same call.

        Args:
            epoch: Number of the epoch, from 0.
            step: Number of the batch in the epoch, from 0.

        Raises:
            UsageError: The epoch has no such batch.
            SampleError: A sample of the batch is bad.
            StateError: The data come from an external source, or an operator has a state, which depends on the
                batches before.

        Example:
            >>> from penstock import data_iterator, fn
            >>> @data_iterator
            ... def numbers():
            ...     return {"x": fn.readers.arrays([0, 1, 2, 3, 4, 5])}
            >>> iterator = numbers(batch_size=2)
            >>> iterator.batch_at(epoch=5, step=1)["x"].tolist(), next(iterator)["x"].tolist()
            ([2, 3], [0, 1])
        """
        with self._lock:
            return self._form(self._arrays_at(self._step_of(epoch, step)))

    @check_annotations
    def sample(self, index: Annotated[int, Range(0)], epoch: Annotated[int, Range(0)] = 0) -> Any:
        """Return one sample as the batches of an epoch show it, without moving the iterator.

        The iterator computes the batch that has the sample, because operators may combine the samples of a batch, and
        returns its row. The cost does not depend on the epoch. A sample that the last batch repeats has the values of
        its first row. A sample that `LastBatchPolicy.DROP` leaves out has those that it would have in a last batch that
        is filled up. A bad sample that `on_error` tolerates is what the batch has in its place.

        Args:
            index: Index of the sample in the data set, or in its `subset`, of the reader that determines the epoch.
                Figures of `show` and errors name it.
            epoch: Number of the epoch, from 0, whose random numbers the sample gets.

        Returns:
            A batch without the axis of rows: dict of `jax.Array`s on the default device.

        Raises:
            UsageError: No reader determines the epoch, the data set has no such sample, the reader draws samples by
                weights or mixes data sets, or another shard or process has the sample.
            SampleError: A sample of the batch is bad.
            StateError: As for `batch_at`.

        Example:
            >>> from penstock import data_iterator, fn
            >>> @data_iterator
            ... def numbers():
            ...     x = fn.readers.arrays(range(1000), random_shuffle=True)
            ...     return {"x": x, "noisy": x + fn.random.uniform(range=[0.0, 0.5])}
            >>> sample = numbers(batch_size=10, seed=1).sample(137, epoch=3)
            >>> int(sample["x"]), sample["noisy"].shape
            (137, ())
        """
        with self._lock:
            number, row = self._row_of(index, epoch)
            arrays = self._arrays_at(self._schedule.step_of(epoch, number))
            layout = self._executable.layout
            return self._form(jax.device_put([layout.row(array, row) for array in arrays]))

    @check_annotations
    def replay(self, state: Any) -> Any:
        """Return the batch that follows a state, without moving the iterator.

        Args:
            state: Result of `get_state` of an iterator over the same definition and data.

        Raises:
            StateError: The state belongs to another definition or data set, no batch of this iterator begins there, or
                the data come from an external source.
            SampleError: A sample of the batch is bad.

        Example:
            >>> from penstock import data_iterator, fn
            >>> @data_iterator
            ... def numbers():
            ...     return {"x": fn.readers.arrays([0, 1, 2, 3, 4, 5])}
            >>> iterator = numbers(batch_size=2)
            >>> state, first = iterator.get_state(), next(iterator)
            >>> iterator.replay(state)["x"].tolist(), next(iterator)["x"].tolist()
            ([0, 1], [2, 3])
        """
        with self._lock:
            self._check_side_run()
            step, seed, order_seed = self._identity.step(
                state, self._schedule, lambda seed: self._readings(seed).values(), new_definition=False
            )
            target = self._schedule.batch_at_or_after(step)
            return self._form(self._compute(target, seed, order_seed, operator_arrays(state)))

    show = show_next

    def _structs(self) -> list[jax.ShapeDtypeStruct]:
        return self._executable.structs(self.batch_size, mask=len(self._names) > len(self.output_map))

    def _row_of(self, index: int, epoch: int) -> tuple[int, int]:
        """Return the batch of an epoch that has a sample, and its row in the batch."""
        lead = lead_reader(self._readings(self._order_seed))
        if lead is None or not lead.is_leader:
            raise UsageError(
                "sample() needs a reader that determines the epoch: the index is that of its sample",
                fix="reader_name=...; or batch_at(epoch, step)",
            )
        if self._executable.layout.processes > 1:
            raise UsageError(
                "this process has only some rows of the batch",
                fix="sample() in a program of one process; or batch_at(epoch, step), in all processes",
            )
        place = lead.row_of(epoch, index, self.batch_size)
        if place is None:
            raise UsageError(
                "the reader has only a shard of the data set, which does not have this sample in this epoch",
                given=f"index={index}, epoch={epoch}",
                fix="the program that reads the other shard",
            )
        return place

    def _step_of(self, epoch: int, number: int) -> BatchStep:
        total = self._schedule.batches_per_epoch
        if epoch and self.is_endless:
            raise UsageError("an endless iterator has one epoch", given=f"epoch={epoch}", expected="0")
        if total is not None and number >= total:
            raise UsageError("the epoch has no such batch", given=f"step={number}", expected=f"0 to {total - 1}")
        return self._schedule.step_of(epoch, number)

    def _known_state(self, step: BatchStep) -> Any:
        """Return the state of operators before a batch, which is known before the first and after the last one."""
        return None if step == self._schedule.first() else self._cursor.run.carried(step)

    def _arrays_at(self, step: BatchStep) -> list[jax.Array]:
        """Return the arrays of a batch without moving the iterator."""
        # The end of an epoch is also the step of a batch that `LastBatchPolicy.DROP` leaves out.
        if step == self._cursor.step and not self._schedule.is_epoch_end(step):
            try:
                return self._peek()
            except EndOfStreamError:
                raise _source_ends(step) from None
        self._check_side_run()
        return self._compute(step, self._seed, self._order_seed, self._known_state(step))

    def _check_side_run(self) -> None:
        """Check that a second run does not take data from the iterator's own: it would share the external sources."""
        for node in self._executable.plan.graph.feeds:
            raise StateError(
                "an external source gives its batches to the iterator alone",
                fix="seek(epoch, step), or set_state(state), which move the iterator",
                where=node.where,
            )

    def _compute(self, step: BatchStep, seed: int, order_seed: int, state: Any) -> list[jax.Array]:
        """Return the arrays of a batch, beside the iterator's own run."""
        if self._side_run is None or self._side_run[0] != (seed, order_seed):
            # Threads in any case: one batch is not worth the start of worker processes.
            readings, pool = self._readings(order_seed), self._pipeline.pool(self._pipeline.num_threads)
            run = self._executable.start(readings, seed, pool, 0, self._schedule, StageTimers(), narrow=True)
            self._side_run = (seed, order_seed), run
        run = self._side_run[1]
        run.resume(step, state)
        try:
            return run.next_batch(step)[0]
        except EndOfStreamError:
            raise _source_ends(step) from None
        finally:
            run.close()


def _source_ends(step: BatchStep) -> UsageError:
    return UsageError("the source ends before this batch", given=f"epoch {step.epoch}, row {step.row}")
