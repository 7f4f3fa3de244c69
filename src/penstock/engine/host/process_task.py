"""Task of a worker process: the host part of a plan, pickled."""

from __future__ import annotations

import mmap
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from penstock.core import Column, Indices
from penstock.core.slice_recorder import Slice, SliceRecorder, recording
from penstock.core.stage_timers import StageTimers, StageTotals
from penstock.engine.failures.bad_row import BadRow
from penstock.engine.host.cached_samples import cache_definition, cache_stages, open_caches
from penstock.engine.host.chunk_executor import Chunk
from penstock.engine.host.host_program import HostProgram
from penstock.engine.host.read_ahead import ReadAhead
from penstock.engine.host.run_context import RunContext
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.engine.host.worker_threads import ThreadExecutor
from penstock.errors import ArgumentTypeError, DefinitionError, MissingExtraError
from penstock.graph import Graph, Node, StreamInput
from penstock.graph.ir.node import OperatorCall, upstream_nodes
from penstock.graph.ir.sample_cache import cached_reader
from penstock.plan.plan import Plan
from penstock.plan.stage_grouping import flat_stages
from penstock.sources.external.processes.shared_memory import ArrayLocation, view
from penstock.sources.external.processes.task_pickling import PickledTask, pickled
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.sources.storage.byte_range import ReadCost
from penstock.sources.stream import Columns
from penstock.types import OnError


class SlotLocation(NamedTuple):
    """Location of a slot: a segment of shared memory, and the place in it."""

    segment: int
    place: ArrayLocation


@dataclass(frozen=True, slots=True)
class ChunkCall:
    """Request to compute a chunk.

    Args:
        step: The batch.
        rows: Numbers of the rows in the batch.
        slots: Per result the location of its slot; None for a ragged result.
        traced: True to return the slices of the stages.
    """

    step: BatchStep
    rows: Indices
    slots: Sequence[SlotLocation | None]
    traced: bool


@dataclass(frozen=True, slots=True)
class ChunkDetails:
    """Result of a chunk beyond the columns.

    Args:
        failed: Rows that failed and are tolerated.
        ragged: Per column without a slot, True if it is a list.
        timings: Totals of the stages.
        seconds: Wall time of the chunk.
        slices: Slices of the stages, if they were requested.
    """

    failed: list[BadRow]
    ragged: list[bool]
    timings: StageTotals
    seconds: float
    slices: list[Slice]


def pickle_program(program: HostProgram, workers: int, readers: int, prefetched: Collection[ReadCost]) -> PickledTask:
    """Pickle the host part of a plan for worker processes.

    Args:
        program: The program.
        workers: Number of processes.
        readers: Number of threads of each process that prefetch data.
        prefetched: Kinds of data to prefetch.

    Raises:
        DefinitionError: The definition has data that only this process has.
        ArgumentTypeError: The definition cannot be pickled, or uses a random generator of its own.
        MissingExtraError: A function needs cloudpickle, which is not installed.
    """
    plan, context = program.plan, program.context
    stages = list(flat_stages(plan.stages))
    for stage in stages:
        for node in stage.nodes:
            if isinstance(node.operator, StreamInput):
                raise DefinitionError(
                    f"{node} gets its batches in this process, one after another, so worker processes cannot compute "
                    "them",
                    given=f"num_processes={workers}",
                    fix="a reader, such as fn.readers.items for objects with a length; or num_processes=0, with "
                    "parallel=True and py_num_workers=... for the source alone",
                    where=node.where,
                )
    # In topological order: the nodes that a node refers to are pickled before it, so a long chain needs no recursion.
    nodes = tuple(sorted(upstream_nodes(value.node for value in plan.results), key=lambda node: node.id))
    hosted = tuple(node for stage in stages for node in stage.nodes)
    part = replace(
        plan,
        graph=Graph(plan.results, plan.graph.name, hosted),
        placements={},
        device=(),
        fusion_groups=(),
        host_descriptions={},
    )
    task = HostTask(
        nodes,
        part,
        tuple(map(cache_definition, cache_stages(plan))),
        context.readers,
        context.leader,
        context.seed,
        context.schedule,
        context.on_error,
        context.host_processes * workers,
        readers,
        tuple(prefetched),
    )
    name = f"the definition {plan.graph.name}"
    try:
        # The arguments as the user wrote them are not needed to compute, and may be anything.
        return pickled(task, name, omit=(OperatorCall,))
    except (ArgumentTypeError, MissingExtraError) as error:
        error.where = error.where or _line_of_failure(nodes)
        raise


def _line_of_failure(nodes: Sequence[Node]) -> Any:
    """Return the line of the first node whose operator or constants cannot be pickled."""
    for node in nodes:
        try:
            pickled((node.operator, node.constants), str(node))
        except (ArgumentTypeError, MissingExtraError):
            return node.where
    return None


@dataclass(frozen=True)
class HostTask:
    """Host part of a plan, for a worker process. Fields that are not described here are those of `RunContext`.

    Args:
        nodes: All nodes, in topological order.
        plan: The plan, without the device program.
        cache_definitions: The `cache_definition` of each cache.
        processes: Number of processes on this host that share the limits on memory.
        read_threads: Number of threads that prefetch data.
        prefetched: Kinds of data to prefetch.
    """

    nodes: tuple[Node, ...]
    plan: Plan
    cache_definitions: Sequence[Sequence[str]]
    readers: Mapping[Node, ShardedReader]
    leader: ShardedReader | None
    seed: int
    schedule: Schedule
    on_error: OnError
    processes: int
    read_threads: int
    prefetched: Collection[ReadCost]

    @cached_property
    def program(self) -> HostProgram:
        """The program."""
        caches = {
            reader: open_caches(stage, definition, sources, self.processes)
            for stage, definition in zip(cache_stages(self.plan), self.cache_definitions, strict=True)
            for reader in [cached_reader(stage.nodes[0])]
            for sources in [[one.source for one in self.readers[reader].readers]]
        }
        context = RunContext(
            self.readers,
            self.leader,
            self.seed,
            self.schedule,
            StageTimers(),
            self.on_error,
            executor=ThreadExecutor(1, self.read_threads, self.prefetched),
            caches=caches,
        )
        return HostProgram(self.plan, context)

    @cached_property
    def _read_ahead(self) -> ReadAhead:
        return ReadAhead(self.program.context)

    def run(self, call: ChunkCall, buffers: Mapping[int, mmap.mmap]) -> tuple[Columns, ChunkDetails]:
        """Compute a chunk. Columns with a slot are written into its buffer; the others are returned."""
        program, recorder = self.program, SliceRecorder()
        slots = [None if slot is None else view(buffers[slot.segment], slot.place) for slot in call.slots]
        start = time.perf_counter()
        with ExitStack() as context:
            if call.traced:
                context.enter_context(recording(recorder))
            context.enter_context(self._read_ahead.prefetched(call.step, call.rows))
            result = program.run_rows(Chunk(call.step, call.rows, slots))
        seconds = time.perf_counter() - start
        rest: list[Column] = [c for c, slot in zip(result.columns, slots, strict=True) if slot is None]
        ragged = [not isinstance(column, np.ndarray) for column in rest]
        timings = program.context.timers.take()
        return tuple(rest), ChunkDetails(result.failed, ragged, timings, seconds, recorder.slices)
