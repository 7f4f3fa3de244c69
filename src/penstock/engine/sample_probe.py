"""Sample 0, computed before anything is planned, to see what a definition cannot tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from penstock.core.columns import Array
from penstock.core.stage_timers import StageTimers
from penstock.engine.host.host_program import Chunk, HostProgram
from penstock.engine.host.run_context import RunContext
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.engine.host.stream_feed import FedBatch
from penstock.errors import DefinitionError, PenstockError, SourceError
from penstock.graph.ir.node import Graph, Node, Value
from penstock.plan.placement import TargetMachine
from penstock.plan.plan import fix_for_ragged, make_plan
from penstock.plan.shape_demand import apply_shapes, propagate_shapes, ragged_sources, values_needing_one_shape
from penstock.plan.shard_merge import MergedProgram, merge_shards
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.sources.stream import Columns, EndOfStreamError, Stream
from penstock.types import OnError

_SAMPLES = 256
"""So many samples are looked at to find one that takes a branch."""


def resolve_shapes(program: MergedProgram, *, dense_outputs: bool, on_error: OnError = "raise") -> MergedProgram:
    """The program with the shapes filled in that consumers need and only the data can tell.

    Args:
        program: what `penstock.plan.shard_merge.merge` gave.
        dense_outputs: whether its outputs must be dense.
        on_error: what is done about bad samples, where their readers do not say: unless it is "raise", another sample
            takes the place of sample 0, if that is bad.

    Raises:
        SampleError: sample 0 is bad.
        DefinitionError: the definition cannot work on what sample 0 is.
    """
    values = values_needing_one_shape(program.graph, dense_outputs=dense_outputs)
    if not values:
        return program
    seen = _samples(program, ragged_sources(values), values, on_error)
    shapes = propagate_shapes(values, {value: sample.shape for value, sample in seen.items()})
    return replace(program, graph=apply_shapes(program.graph, shapes))


def probe_sample(value: Value) -> Array:
    """Sample 0 of a value, computed while its definition is still being traced.

    Raises:
        PenstockError: it cannot be computed, or only on the device.
    """
    program = merge_shards([Graph((value,))], [0], 1)
    outputs = program.graph.outputs
    return _samples(program, outputs, outputs, "raise")[outputs[0]]


def _samples(
    program: MergedProgram, values: tuple[Value, ...], needed: tuple[Value, ...], on_error: OnError
) -> Mapping[Value, Array]:
    """Sample 0 of some values; of those in a branch that it does not take, the first sample that does.

    Args:
        program: the definition.
        values: all that are of interest.
        needed: those of them that must be known.
        on_error: what is done about bad samples.

    Raises:
        DefinitionError: none of the first samples takes the branch in which a needed value is made.
    """
    graph = Graph(values, program.graph.name)
    plan = make_plan(graph, TargetMachine(placement="host"), dense_outputs=False)
    readings: dict[Node, ShardedReader] = {}
    for number, node in enumerate(graph.readers):
        first = program.readers[node.id][0]
        policy: OnError = "raise" if (first.on_error or on_error) == "raise" else "replace"
        alone = replace(
            first, shuffle=False, shard_id=0, num_shards=1, pad_last_batch=False, contiguous=False, stick_to_shard=False
        )
        alone = replace(alone, on_error=policy)
        readings[node] = ShardedReader([alone], [0], 1, seed=0, number=number, leads=True)
    leader, schedule = next(iter(readings.values()), None), Schedule(1, None, 1, (1,) * len(readings))
    host = HostProgram(plan, RunContext(readings, leader, 0, schedule, StageTimers(), on_error))
    feeds = {node: program.streams[node.id][0] for node in graph.feeds}
    fed = FedBatch(1, {node: _first(node, stream) for node, stream in feeds.items()}, lambda _, numbers: numbers)
    slots: list[Array | None] = [None] * len(plan.results)
    found: dict[Value, Array] = {}
    most = 1 if feeds else _SAMPLES  # of a stream, the first sample alone can be looked at
    for row in range(min((most, *[reading.length for reading in readings.values()]))):
        step = BatchStep(epoch=0, row=row, consumed=(row,) * len(readings), rows=1)
        result = host.run_rows(Chunk(step, np.zeros(1, np.int64), slots, fed))
        seen = {value: column[0] for value, column in zip(plan.results, result.columns, strict=True)}
        found = {value: np.asarray(sample) for value, sample in seen.items() if sample is not None} | found
        if all(value in found for value in needed):
            return found
    value = next(value for value in needed if value not in found)
    raise DefinitionError(
        f"{value} needs one shape, and none of the first {most} samples takes the branch that it is made in",
        given=value.spec,
        fix=fix_for_ragged(value),
        where=value.node.where,
    )


def _first(node: Node, stream: Stream) -> Columns:
    """The first sample of a stream."""
    try:
        return stream.probe()
    except EndOfStreamError:
        raise SourceError("there are no data: the source ends before the first batch", where=node.where) from None
    except PenstockError as error:
        error.where = error.where or node.where
        raise
