"""Position of a consumer in a run."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, TypeVar

from penstock.engine.failures.bad_row import BadRow
from penstock.engine.failures.error_budget import ErrorBudget
from penstock.engine.run import Run
from penstock.errors import PenstockError, SampleError
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.sources.stream import EndOfStreamError

T = TypeVar("T")


class RunCursor(Generic[T]):
    """Position in a run: the next step, its batch if that was computed already, and the error budget.

    Args:
        run: Computes batches. May be replaced by another run of the same plan.
        schedule: The steps of all epochs.
        fetch: Method of `Run` that returns the outputs of a step and its bad rows: `Run.next_batch` or `Run.outputs`.
        budget: Counts the bad samples of the batches that are taken; None if bad samples are errors.

    Attributes:
        stream_ended: True after a stream has ended the epoch at this position.
    """

    def __init__(
        self,
        run: Run,
        schedule: Schedule,
        fetch: Callable[[Run, BatchStep], tuple[list[T], Sequence[BadRow]]],
        budget: ErrorBudget | None,
    ) -> None:
        self.run, self.schedule, self.budget = run, schedule, budget
        self._fetch = fetch
        self.seek(schedule.first())

    @property
    def at_end(self) -> bool:
        """True at the end of an epoch, before the next one begins."""
        return self.stream_ended or self.schedule.is_epoch_end(self.step)

    def seek(self, step: BatchStep) -> None:
        """Move to a step."""
        self.step = step
        self.outputs: list[T] | None = None
        self.bad_rows: Sequence[BadRow] = ()
        self.stream_ended = False

    def peek(self) -> list[T]:
        """Return the outputs of the batch at this position without taking it.

        Raises:
            EndOfStreamError: A stream has ended the epoch.
            SampleError: A sample of the batch is bad.
        """
        outputs = self.outputs
        if outputs is None:
            if self.stream_ended:  # an iterator that has ended must not be asked again in the same epoch
                raise EndOfStreamError
            try:
                outputs, self.bad_rows = self._fetch(self.run, self.step)
            except EndOfStreamError:
                self.stream_ended = True
                raise
            self.outputs = outputs
        return outputs

    def ends_here(self) -> bool:
        """Return True at the end of an epoch. If only a stream knows, it is asked for the batch at this position."""
        if self.schedule.length_unknown and not self.at_end:
            with suppress(EndOfStreamError, PenstockError):  # an error is raised again where the batch is taken
                self.peek()
        return self.at_end

    def begin(self) -> tuple[Future[Any], ...]:
        """Begin the host part of the batch at this position; see `Run.begin`.

        Raises:
            EndOfStreamError: A stream has ended the epoch.
            SampleError: A sample of the batch is bad.
        """
        try:
            return self.run.begin(self.step)
        except EndOfStreamError:
            self.stream_ended = True
            raise

    def next(self) -> list[T]:
        """Return the outputs of the batch at this position and advance. An error does not advance.

        Raises:
            EndOfStreamError: The epoch has ended.
            SampleError: A sample of the batch is bad, or there were too many bad samples.
        """
        if self.at_end:
            raise EndOfStreamError
        outputs = self.peek()
        if self.budget is not None:
            try:
                self.budget.add(self.bad_rows, self.step.rows)
            except SampleError:
                self.close()
                raise
        self.run.taken(self.step)
        self.seek(self.schedule.position_after(self.step))
        return outputs

    def end_epoch(self) -> None:
        """Move to the beginning of the next epoch, unless the cursor is at the beginning of one."""
        if self.stream_ended:
            self.run.taken(self.step)
        if self.step.row or self.stream_ended:
            self.seek(self.schedule.next_epoch(self.step))

    def close(self) -> None:
        """Close the run. It discards its batches, so the batch at this position is computed again."""
        self.outputs = None
        self.run.close()
