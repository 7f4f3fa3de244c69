"""A pipeline in motion: its plan, and the step at which it stands."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from penstock.core.stage_timers import StageTimers
from penstock.engine.executable import Executable, error_policies
from penstock.engine.failures.error_budget import ErrorBudget, ErrorLimits
from penstock.engine.host.sharded_reader import SampleIndices, ShardedReader
from penstock.engine.host.worker_threads import SerialExecutor, ThreadExecutor
from penstock.engine.run import Run
from penstock.engine.transfer.batch_layout import SingleDevice
from penstock.errors import DefinitionError, UsageError
from penstock.graph.ir.node import Graph, Node, Value
from penstock.graph.ir.reader_lineage import reader_value_of
from penstock.pipeline.tensor_list import TensorList, tensor_list
from penstock.plan.placement import PlacementHint
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.sources.stream import EndOfStreamError


@dataclass
class PipelineSession:
    """What `Pipeline.run` goes on with from batch to batch, for as long as its graph is the pipeline's."""

    graph: Graph
    planned: Executable
    run: Run
    schedule: Schedule
    step: BatchStep
    ledger: ErrorBudget
    origins: tuple[Callable[[BatchStep, int], str] | None, ...]
    ended: bool = False

    @classmethod
    def start(
        cls,
        graph: Graph,
        placement: PlacementHint,
        device_id: int | None,
        seed: int,
        order_seed: int,
        batch_size: int,
        pool: ThreadExecutor | SerialExecutor,
        depth: int,
    ) -> Self:
        """Plan a graph, and stand before its first batch.

        Args:
            graph: what the definition says.
            placement: where it may be computed.
            device_id: the number of the local device that its arrays lie on.
            seed: what all random numbers derive from.
            order_seed: what the orders of readers derive from.
            batch_size: how many rows a batch has.
            pool: where host work runs.
            depth: how many batches are prepared ahead.

        Raises:
            PenstockError: the definition or its first sample is not right.
        """
        if "skip" in error_policies(graph, "raise"):
            raise UsageError(
                'on_error="skip" masks the rows of bad samples, and run() gives no mask',
                fix='on_error="replace"; or an iterator, whose batches have one',
            )
        planned = Executable.build([graph], SingleDevice(device_id), placement, dense_outputs=False)
        readings = planned.readings(order_seed, None, batch_size)
        strides = tuple(reading.stride(batch_size) for reading in readings.values())
        schedule = Schedule(batch_size, None, (*strides, batch_size)[0], strides)
        run = planned.start(readings, seed, pool, depth, schedule, StageTimers(), narrow=False)
        origins = tuple([_origins(value, readings) for value in planned.plan.graph.outputs])
        return cls(
            graph,
            planned,
            run,
            schedule,
            schedule.first(),
            ErrorBudget((), ErrorLimits(), None, None, batch_size),
            origins,
        )

    def outputs(self) -> tuple[TensorList, ...]:
        """The next batch.

        Raises:
            SampleError: a sample of the batch is bad.
            StopIteration: an external source has ended.
        """
        try:
            if self.ended:
                raise EndOfStreamError
            outputs, failed = self.run.outputs(self.step)
        except EndOfStreamError:
            self.ended = True
            raise StopIteration from None
        self.ledger.add(failed, self.step.rows)
        origins = [origin and functools.partial(origin, self.step) for origin in self.origins]
        self.step = self.schedule.next_step(self.step)
        specs = [value.spec for value in self.planned.plan.graph.outputs]
        return tuple([tensor_list(*output) for output in zip(outputs, specs, origins, strict=True)])

    def reset(self) -> None:
        """Begin the next epoch, where an external source has ended this one."""
        if self.ended:
            self.step, self.ended = self.schedule.next_epoch(self.step), False


def _origins(value: Value, readings: Mapping[Node, ShardedReader]) -> Callable[[BatchStep, int], str] | None:
    """What tells where samples of a value come from, if one reader does."""
    try:
        read = reader_value_of(value)
    except DefinitionError:  # another reader in each branch of a condition
        return None
    found = next((reading for each, reading in readings.items() if read and each.id == read.node.id), None)
    if read is None or found is None or any(reader.on_error == "replace" for reader in found.readers):
        return None
    return functools.partial(_origin, found, read.index)


def _origin(reading: ShardedReader, value: int, step: BatchStep, row: int) -> str:
    samples = reading.samples(step, np.array([row]))
    assert isinstance(samples, SampleIndices)  # one reader reads all rows of a pipeline
    return samples.source.source_info(int(samples.indices[0]), value)
