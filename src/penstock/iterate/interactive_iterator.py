"""Methods of an iterator that a user calls by hand: loops over a part of the data, any batch, a figure, the repr."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from types import TracebackType
from typing import Annotated, Any, Self

import jax

from penstock.core.stage_timers import StageTimers
from penstock.engine.executable import Executable
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.engine.run import Run
from penstock.errors import StateError, UsageError
from penstock.graph import Node, Range, check_annotations
from penstock.iterate.epoch_schedule import check_seeks
from penstock.iterate.iterator_html import iterator_html
from penstock.iterate.iterator_state import StateIdentity, operator_arrays
from penstock.iterate.next_batch_figure import show_next
from penstock.pipeline.pipeline import Pipeline
from penstock.pipeline.run_cursor import RunCursor
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
    def close(self) -> None:
        """Stop the threads."""

    @abstractmethod
    def _form(self, arrays: Sequence[Any]) -> Any: ...

    @abstractmethod
    def _peek(self) -> list[jax.Array]: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        outputs = ", ".join(
            f"{name} {struct.dtype}{list(struct.shape)}"
            for name, struct in zip(self._names, self._structs(), strict=True)
        )
        return f"{type(self).__name__}({self._executable.plan.graph.name}: {outputs}; {self._place()})"

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
            >>> @data_iterator(output_map=["x"], reader_name="r")
            ... def numbers():
            ...     return fn.readers.arrays([0, 1, 2, 3, 4, 5], name="r")
            >>> iterator = numbers(batch_size=2)
            >>> [batch["x"].tolist() for batch in iterator.take(2)], [batch["x"].tolist() for batch in iterator]
            ([[0, 1], [2, 3]], [[4, 5]])
        """
        return islice(self, count)

    def epoch(self) -> Iterator[Any]:
        """Begin an epoch and return an iterator over its batches.

        At the beginning of an epoch it is that epoch. Anywhere else it is the next one, and the rest of the current
        epoch is skipped. A `for` loop over the iterator itself continues where the iterator is.

        Raises:
            UsageError: The iterator is endless.

        Example:
            >>> from penstock import data_iterator, fn
            >>> @data_iterator(output_map=["x"], reader_name="r")
            ... def numbers():
            ...     return fn.readers.arrays([0, 1, 2, 3, 4, 5], name="r")
            >>> iterator = numbers(batch_size=2)
            >>> next(iterator)["x"].tolist(), [batch["x"].tolist() for batch in iterator.epoch()]
            ([0, 1], [[0, 1], [2, 3], [4, 5]])
            >>> iterator
            DataIterator(numbers: x int32[2]; epoch 1, batch 3 of 3)
        """
        if self._schedule.batches_per_epoch is None and not self._schedule.length_unknown:
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
            >>> @data_iterator(output_map=["x"], reader_name="r")
            ... def numbers():
            ...     return fn.readers.arrays([0, 1, 2, 3, 4, 5], name="r")
            >>> iterator = numbers(batch_size=2)
            >>> iterator.seek(epoch=1000, step=2)
            >>> next(iterator)["x"].tolist()
            [4, 5]
        """
        with self._lock:
            target = self._step_of(epoch, step)
            if target != self._cursor.step:
                check_seeks(self._executable)
                self._cursor.run.resume(target, self._known_state(target))
            self._cursor.seek(target)

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
            >>> @data_iterator(output_map=["x"], reader_name="r")
            ... def numbers():
            ...     return fn.readers.arrays([0, 1, 2, 3, 4, 5], name="r")
            >>> iterator = numbers(batch_size=2)
            >>> iterator.batch_at(epoch=5, step=1)["x"].tolist(), next(iterator)["x"].tolist()
            ([2, 3], [0, 1])
        """
        with self._lock:
            target = self._step_of(epoch, step)
            if target == self._cursor.step:
                return self._form(self._peek())
            self._check_side_run()
            return self._form(self._compute(target, self._seed, self._order_seed, self._known_state(target)))

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
            >>> @data_iterator(output_map=["x"], reader_name="r")
            ... def numbers():
            ...     return fn.readers.arrays([0, 1, 2, 3, 4, 5], name="r")
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

    def _step_of(self, epoch: int, number: int) -> BatchStep:
        total = self._schedule.batches_per_epoch
        if total is None and epoch and not self._schedule.length_unknown:
            raise UsageError("an endless iterator has one epoch", given=f"epoch={epoch}", expected="0")
        if total is not None and number >= total:
            raise UsageError("the epoch has no such batch", given=f"step={number}", expected=f"0 to {total - 1}")
        return self._schedule.step_of(epoch, number)

    def _known_state(self, step: BatchStep) -> Any:
        """Return the state of operators before a batch, which is known before the first and after the last one."""
        return None if step == self._schedule.first() else self._cursor.run.carried(step)

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
            readings, pool = self._readings(order_seed), self._pipeline.pool()
            run = self._executable.start(readings, seed, pool, 0, self._schedule, StageTimers(), narrow=True)
            self._side_run = (seed, order_seed), run
        run = self._side_run[1]
        run.resume(step, state)
        try:
            return run.next_batch(step)[0]
        except EndOfStreamError:
            raise UsageError("the source ends before this batch", given=f"epoch {step.epoch}, row {step.row}") from None
        finally:
            run.close()
