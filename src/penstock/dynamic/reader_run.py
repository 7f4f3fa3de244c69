"""Run of a reader of dynamic mode: an ordinary pipeline, divided into the epochs of dynamic mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core import Indices
from penstock.core.stage_timers import StageTimers
from penstock.eager.batch import Batch as Samples
from penstock.engine.executable import Executable, error_policies
from penstock.engine.failures.error_budget import ErrorBudget, ErrorLimits
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.engine.run import Run
from penstock.engine.transfer.batch_layout import SingleDevice
from penstock.errors import StateError, UsageError
from penstock.graph import DataNode
from penstock.iterate.epoch_schedule import schedule_of
from penstock.pipeline import Pipeline
from penstock.pipeline.run_cursor import RunCursor
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.types import LastBatchPolicy


@dataclass(frozen=True)
class ReaderPosition:
    """Position of a reader, independent of its batch size.

    Args:
        epoch: Number of the exact epoch; 0 for a reader whose batches continue over epochs.
        samples: Number of samples delivered in that epoch, or since the beginning.
    """

    epoch: int = 0
    samples: int = 0


def define_pipeline(definition: Callable[[], Sequence[DataNode]], rows: int, threads: int, name: str) -> Pipeline:
    """Trace a definition that contains a reader.

    Raises:
        PenstockError: The definition raises it.
    """
    pipeline = Pipeline(batch_size=rows, num_threads=threads, placement="host")
    pipeline.name = name
    pipeline.define(definition)
    return pipeline


# Returns the random words of a node: of a step, by its number; of a stream of the pipeline; of rows.
StepBits = Callable[[int, int, Indices, int], Any]


class ReaderRun:
    """Batches of a pipeline with one reader, from a position on.

    Args:
        pipeline: The pipeline, which has one reader.
        policy: Policy for the last batch of exact epochs; None for batches that continue over epochs, as in DALI.
        position: Position of the first batch.
        bits: Random numbers of the pipeline; None if it draws none.

    Raises:
        UsageError: A policy for bad samples or batches needs a mask, which dynamic mode does not have.
        StateError: No batch begins at the position.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        policy: LastBatchPolicy | None,
        position: ReaderPosition,
        bits: StepBits | None = None,
    ) -> None:
        graph, rows, layout = pipeline.graph, pipeline.max_batch_size, SingleDevice()
        if "skip" in error_policies(graph, "raise"):
            raise UsageError(
                'on_error="skip" masks the rows of bad samples, and dynamic mode does not deliver a mask',
                fix='on_error="replace"',
            )
        executable = Executable.build([graph], layout, "host", dense_outputs=False)
        (reader,) = graph.readers
        readings = executable.readings(pipeline.order_seed, None if policy is None else reader, rows)
        (self._reading,) = readings.values()
        if policy is None:
            stride = self._reading.stride(rows)
            self._schedule = Schedule(rows, None, stride, (stride,))
        else:
            self._schedule = schedule_of(readings, rows, -1, policy, layout)
        pool, depth = pipeline.pool(), pipeline.prefetch_queue_depth
        draws = None if bits is None else _StepDraws(self._schedule, bits)
        run = executable.start(
            readings, pipeline.seed, pool, depth, self._schedule, StageTimers(), narrow=False, draws=draws
        )
        budget = ErrorBudget((), ErrorLimits(), None, None, rows)
        self._cursor: RunCursor[Any] = RunCursor(run, self._schedule, Run.outputs, budget)
        self._cursor.seek(self._step_at(position))
        self._layouts = [value.spec.layout for value in executable.plan.graph.outputs]

    def _step_at(self, position: ReaderPosition) -> BatchStep:
        try:
            row = self._reading.positions_passed(position.samples)
        except ValueError as error:
            raise StateError(str(error), fix="the batch size of the saved state") from None
        return self._schedule.step_at(position.epoch, row, (row,))

    @property
    def position(self) -> ReaderPosition:
        """Position of the next batch."""
        step = self._cursor.step
        return ReaderPosition(step.epoch, self._reading.samples_passed(step.row))

    @property
    def step_number(self) -> int:
        """Number of the next batch. It increases by one with every batch."""
        return _number(self._schedule, self._cursor.step)

    @property
    def is_exact(self) -> bool:
        """True if epochs are exact, so that `at_end` tells their end."""
        return self._schedule.length is not None

    @property
    def at_end(self) -> bool:
        """True at the end of an exact epoch."""
        return self._cursor.at_end

    def end_epoch(self) -> None:
        """Move to the beginning of the next exact epoch, unless an epoch begins here."""
        self._cursor.end_epoch()

    def batches_of_epoch(self, epoch: int) -> int:
        """Return the number of batches that deliver at least the samples of an epoch.

        Args:
            epoch: Number of the epoch since the reader was made. Shards trade places from epoch to epoch.
        """
        return -(-_share(self._reading, epoch) // self._schedule.stride)

    def next_batch(self) -> list[Samples]:
        """Return the outputs of the next batch.

        Raises:
            SampleError: A sample of the batch is bad.
        """
        columns = self._cursor.next()
        return [Samples(column, layout) for column, layout in zip(columns, self._layouts, strict=True)]

    def close(self) -> None:
        """Stop the threads."""
        self._cursor.close()


def _share(reading: ShardedReader, epoch: int) -> int:
    """Return the number of positions of a reader's shard in an epoch."""
    (order,) = reading.orders
    # With padding, all shards are as long as the longest.
    return order.epoch_length if reading.pads_last_batch else order.shard_bounds(epoch)[1]


@dataclass(frozen=True)
class _StepDraws:
    """Random numbers of a run by the number of the step; see `RandomDraws`.

    Args:
        schedule: Steps of the run.
        of_step: The random numbers.
    """

    schedule: Schedule
    of_step: StepBits

    def bits(self, stream: int, step: BatchStep, rows: Indices, count: int) -> Any:
        """Return the random words of some rows."""
        return self.of_step(_number(self.schedule, step), stream, rows, count)


def _number(schedule: Schedule, step: BatchStep) -> int:
    return step.epoch * (schedule.batches_per_epoch or 0) + step.row // schedule.stride
