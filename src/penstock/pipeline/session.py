"""Run of a pipeline, from batch to batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
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
from penstock.graph.identity.fingerprint import canonical_definition
from penstock.graph.ir.reader_lineage import reader_value_of
from penstock.pipeline.run_cursor import RunCursor
from penstock.pipeline.run_state import StateIdentity, operator_arrays
from penstock.pipeline.tensor_list import TensorList, tensor_list
from penstock.sources.external.feed_queue import FeedQueue
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
        identity: Identity of its states.
        readings: The readers.
        seeds: Seed of random numbers, and seed of the readers' orders.
        asks_sources: True if the definition has sources that can be asked for a batch before it is requested.
        runs_ahead: True if batches are computed before they are requested.
        has_begun: True after the first batch.
    """

    graph: Graph
    executable: Executable
    cursor: RunCursor[Any]
    origins: tuple[SampleOrigin | None, ...]
    identity: StateIdentity
    readings: Mapping[Node, ShardedReader]
    seeds: tuple[int, int]
    asks_sources: bool
    runs_ahead: bool
    has_begun: bool = False

    @classmethod
    def start(cls, pipeline: Pipeline, graph: Graph, state: Mapping[str, Any] | None) -> Self:
        """Plan a graph with the options of a pipeline, and stop before its first batch.

        Args:
            pipeline: The pipeline.
            graph: The graph.
            state: Result of `state`, of a session of the same definition, whose position comes first; None for the
                first batch.

        Raises:
            PenstockError: The definition or its first sample is invalid.
            StateError: The state belongs to another definition or data set, or a source cannot go to the position.
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
        seed, order_seed = pipeline.seed, pipeline.order_seed
        readings = executable.readings(order_seed, None, batch_size)
        strides = tuple(reading.stride(batch_size) for reading in readings.values())
        # Readers continue from epoch to epoch, but a source may end an epoch.
        ends = bool(graph.feeds)
        schedule = Schedule(batch_size, None, (*strides, batch_size)[0], strides, length_unknown=ends)
        sources = tuple([reading.readers[0].source for reading in readings.values()])
        definition, positions = canonical_definition(graph), executable.source_positions(schedule)
        identity = StateIdentity(definition, executable.dataset, len(readings), 0, sources, *positions)
        step = schedule.first()
        if state is not None:
            step, seed, order_seed = identity.step(
                state,
                schedule,
                lambda seed: executable.readings(seed, None, batch_size).values(),
                new_definition=False,
            )
            if step != schedule.first():
                executable.check_seeks(step, schedule, fed_by_hand=True)
            readings = executable.readings(order_seed, None, batch_size)
        # DALI's queue includes the batch that `run` returns; with depth 1, `run` calls a source late.
        depth = max(pipeline.prefetch_queue_depth - bool(graph.feeds), 0)
        run = executable.start(readings, seed, pipeline.pool(), depth, schedule, StageTimers(), narrow=False)
        budget = ErrorBudget((), ErrorLimits(), None, None, batch_size)
        origins = tuple([_sample_origin(value, readings) for value in executable.plan.graph.outputs])
        cursor = RunCursor(run, schedule, Run.outputs, budget)
        if state is not None:
            run.resume(step, operator_arrays(state))
            cursor.seek(step)
            if state.get("ended"):
                cursor.ends_here()
        fed = any(isinstance(executable.program.streams[node.id][0], FeedQueue) for node in executable.plan.graph.feeds)
        seeds = seed, order_seed
        return cls(graph, executable, cursor, origins, identity, readings, seeds, ends and not fed, depth > 0)

    def state(self) -> dict[str, Any]:
        """Return the position as plain JSON, and the arrays that operators carry."""
        step, cursor = self.cursor.step, self.cursor
        operators = cursor.run.carried(step)
        readings, ended = self.readings.values(), cursor.stream_ended
        return self.identity.state(step, cursor.schedule, *self.seeds, readings, operators, ended=ended)

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
        self.has_begun = True
        specs = [value.spec for value in self.executable.plan.graph.outputs]
        return tuple([tensor_list(*output) for output in zip(outputs, specs, origins, strict=True)])

    def reset(self) -> None:
        """Begin the next epoch if an external source has ended this one."""
        # A source that works ahead has been asked for the batch after the last one, so the end of the epoch is known
        # before `run` raises StopIteration. Programs that compare two pipelines reset both when the first one ends.
        if self.runs_ahead and self.cursor.step.row:
            self.ends_here()
        if self.cursor.at_end:
            self.cursor.end_epoch()

    def ends_here(self) -> bool:
        """Ask the sources for the next batch. Return True if they have ended the epoch."""
        return self.cursor.ends_here() if self.asks_sources else self.cursor.at_end


def _sample_origin(value: Value, readings: Mapping[Node, ShardedReader]) -> SampleOrigin | None:
    """Return the origin of a value's samples: of one reader, or of several that an operator joins."""
    try:
        source = reader_value_of(value, lambda node: node.operator.joins_names)
    except DefinitionError:  # the branches of a condition read from different readers
        return None
    if source is not None and source.node.operator.joins_names:
        parts = [_sample_origin(item, readings) for item in source.node.inputs]
        return functools.partial(_joined, tuple(filter(None, parts)))
    reading = next((reading for node, reading in readings.items() if source and node.id == source.node.id), None)
    # With on_error="replace" a row may contain another sample than the order says.
    if source is None or reading is None or any(reader.on_error == "replace" for reader in reading.readers):
        return None
    return functools.partial(_origin, reading, source.index)


def _joined(parts: Sequence[SampleOrigin], step: BatchStep, row: int) -> str:
    return ";".join(filter(None, [part(step, row) for part in parts]))


def _origin(reading: ShardedReader, output: int, step: BatchStep, row: int) -> str:
    (samples,) = reading.samples(step, np.array([row]))
    return samples.source.source_info(int(samples.indices[0]), output)
