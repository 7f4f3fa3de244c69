"""Run of a pipeline, from batch to batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from penstock.core.dataclass import dataclass
from penstock.core.stage_timers import StageTimers
from penstock.engine.executable import Executable, error_policies
from penstock.engine.failures.error_budget import ErrorBudget, ErrorLimits
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.engine.run import Run
from penstock.engine.transfer.batch_layout import SingleDevice
from penstock.errors import DefinitionError, UsageError
from penstock.graph import Graph, Node, Value
from penstock.graph.ir.reader_lineage import reader_value_of
from penstock.pipeline.run_cursor import RunCursor
from penstock.pipeline.tensor_list import TensorList, tensor_list
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.sources.stream import EndOfStreamError

if TYPE_CHECKING:
    from penstock.pipeline.pipeline import Pipeline

# Returns where a sample was read, given the batch and the row.
SampleOrigin = Callable[[BatchStep, int], str]


@dataclass
class PipelineSession:
    """State that `Pipeline.run` keeps from batch to batch while the graph stays the same.

    Args:
        graph: The graph of the definition.
        executable: Its plan.
        cursor: The position.
        origins: Per output, where its samples were read; None if no single reader tells.
    """

    graph: Graph
    executable: Executable
    cursor: RunCursor[Any]
    origins: tuple[SampleOrigin | None, ...]

    @classmethod
    def start(cls, pipeline: Pipeline, graph: Graph) -> Self:
        """Plan a graph with the options of a pipeline, and stop before its first batch.

        Raises:
            PenstockError: The definition or its first sample is invalid.
        """
        if "skip" in error_policies(graph, "raise"):
            raise UsageError(
                'on_error="skip" masks the rows of bad samples, and run() returns no mask',
                fix='on_error="replace"; or an iterator, whose batches have a mask',
            )
        if pipeline.input_hosts:
            raise UsageError(
                "input hosts compute the batches of iterators, not those of run()",
                given=f"input_hosts={list(map(str, pipeline.input_hosts))}",
                fix="data_iterator(...)(..., input_hosts=[...]); or leave input_hosts out",
            )
        layout, batch_size = SingleDevice(pipeline.device_id), pipeline.max_batch_size
        executable = Executable.build([graph], layout, pipeline.placement, dense_outputs=False)
        readings = executable.readings(pipeline.order_seed, None, batch_size)
        strides = tuple(reading.stride(batch_size) for reading in readings.values())
        schedule = Schedule(batch_size, None, (*strides, batch_size)[0], strides)
        # DALI's queue includes the batch that `run` returns; with depth 1, `run` calls a source late.
        depth = max(pipeline.prefetch_queue_depth - bool(graph.feeds), 0)
        run = executable.start(readings, pipeline.seed, pipeline.pool(), depth, schedule, StageTimers(), narrow=False)
        budget = ErrorBudget((), ErrorLimits(), None, None, batch_size)
        origins = tuple([_sample_origin(value, readings) for value in executable.plan.graph.outputs])
        return cls(graph, executable, RunCursor(run, schedule, Run.outputs, budget), origins)

    def outputs(self) -> tuple[TensorList, ...]:
        """Return the next batch.

        Raises:
            SampleError: A sample of the batch is bad.
            StopIteration: An external source has ended.
        """
        # Taken before `next` advances: the origins of this batch are looked up later, if ever.
        step = self.cursor.step
        try:
            outputs = self.cursor.next()
        except EndOfStreamError:
            raise StopIteration from None
        origins = [origin and functools.partial(origin, step) for origin in self.origins]
        specs = [value.spec for value in self.executable.plan.graph.outputs]
        return tuple([tensor_list(*output) for output in zip(outputs, specs, origins, strict=True)])

    def reset(self) -> None:
        """Begin the next epoch if an external source has ended this one."""
        if self.cursor.at_end:
            self.cursor.end_epoch()


def _sample_origin(value: Value, readings: Mapping[Node, ShardedReader]) -> SampleOrigin | None:
    """Return the origin of a value's samples, if a single reader determines it."""
    try:
        source = reader_value_of(value)
    except DefinitionError:  # the branches of a condition read from different readers
        return None
    reading = next((reading for node, reading in readings.items() if source and node.id == source.node.id), None)
    # With on_error="replace" a row may contain another sample than the order says.
    if source is None or reading is None or any(reader.on_error == "replace" for reader in reading.readers):
        return None
    return functools.partial(_origin, reading, source.index)


def _origin(reading: ShardedReader, output: int, step: BatchStep, row: int) -> str:
    (samples,) = reading.samples(step, np.array([row]))
    return samples.source.source_info(int(samples.indices[0]), output)
