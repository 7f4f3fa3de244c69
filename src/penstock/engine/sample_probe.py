"""Sample probe: computes sample 0 before planning, for shapes that only the data can tell."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from penstock.core import Array
from penstock.core.stage_timers import StageTimers
from penstock.engine.graph_program import GraphProgram
from penstock.engine.host.run_context import RunContext
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.errors import DefinitionError, PenstockError, SampleError, SourceError
from penstock.graph import Graph, Node, Value
from penstock.plan.plan import fix_for_ragged
from penstock.plan.shape_demand import apply_shapes, propagate_shapes, ragged_sources, values_needing_one_shape
from penstock.plan.shard_merge import MergedProgram, merge_shards
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.sources.stream import Columns, EndOfStreamError, Stream
from penstock.types import OnError

# Samples to compute in search of one that takes a branch. More would delay the start of a program.
_MAX_SAMPLES = 256

# Samples of a stream to try if the first ones are bad and skipped. Samples that a source cannot return again are kept.
_MAX_SKIPPED = 16


def resolve_shapes(program: MergedProgram, *, dense_outputs: bool, on_error: OnError = "raise") -> MergedProgram:
    """Fill in the assumed-same shapes of a program from sample 0.

    Args:
        program: The merged program.
        dense_outputs: True if its outputs must be dense.
        on_error: Policy for bad samples of readers that do not have their own. Unless it is "raise", another sample
            replaces sample 0 if that is bad; with "skip", also one of the first samples of a stream.

    Raises:
        SampleError: Sample 0 is bad.
        DefinitionError: The definition does not work for sample 0.
    """
    # First the values that every sample has: their shapes may determine those of values in branches, which sample 0
    # of a stream does not have if it takes another branch.
    for every_sample in (True, False):
        values = values_needing_one_shape(program.graph, dense_outputs=dense_outputs)
        values = tuple([value for value in values if value.node.guard is None or not every_sample])
        if values:
            program = _with_shapes(program, values, on_error)
    return program


def _with_shapes(program: MergedProgram, values: tuple[Value, ...], on_error: OnError) -> MergedProgram:
    """Fill in the shapes that some values, and the values that they are computed from, have at sample 0."""
    seen = _samples(program, ragged_sources(values), values, on_error)
    shapes = propagate_shapes(values, {value: sample.shape for value, sample in seen.items()})
    return replace(program, graph=apply_shapes(program.graph, shapes))


def probe_sample(value: Value) -> Array:
    """Compute sample 0 of a value while its definition is being traced.

    Raises:
        PenstockError: It cannot be computed, or only on the device.
    """
    program = merge_shards([Graph((value,))], [0], 1)
    outputs = program.graph.outputs
    return _samples(program, outputs, outputs, "raise")[outputs[0]]


def _samples(
    program: MergedProgram, values: tuple[Value, ...], needed: tuple[Value, ...], on_error: OnError
) -> Mapping[Value, Array]:
    """Compute sample 0 of some values; for a value in a branch, the first sample that takes the branch.

    Args:
        program: The merged program.
        values: Values to compute.
        needed: Those of them that must be found.
        on_error: Policy for bad samples.

    Raises:
        DefinitionError: None of the first samples takes the branch of a needed value.
    """
    graph = Graph(values, program.graph.name)
    readings: dict[Node, ShardedReader] = {}
    for number, node in enumerate(graph.readers):
        first = program.readers[node.id][0]
        # "skip" would leave a row of zeros without a shape, so a skipped sample is replaced here.
        policy: OnError = "raise" if (first.on_error or on_error) == "raise" else "replace"
        # Sample 0 of the data set, not of an order: all shards and processes must see the same sample.
        alone = replace(
            first,
            shuffle=False,
            shard_id=0,
            num_shards=1,
            pad_last_batch=False,
            contiguous=False,
            stick_to_shard=False,
            on_error=policy,
        )
        readings[node] = ShardedReader([alone], [0], 1, seed=0, number=number, leads=True)
    leader, schedule = next(iter(readings.values()), None), Schedule(1, None, 1, (1,) * len(readings))
    streams = {node: program.streams[node.id][0] for node in graph.feeds}
    # No sample replaces a bad one of a stream, and a skipped one has no shape, so the stream's next samples are tried.
    of_row: OnError = "raise" if streams else on_error
    host = GraphProgram(graph, RunContext(readings, leader, 0, schedule, StageTimers(), of_row))
    samples: dict[Value, Array] = {}
    limit = _MAX_SAMPLES if not streams else _MAX_SKIPPED if on_error == "skip" else 1
    failure: SampleError | None = None
    for row in range(min((limit, *[reading.length for reading in readings.values()]))):
        step = BatchStep(epoch=0, row=row, consumed=(row,) * len(readings), rows=1)
        try:
            columns = host.compute(step, {node: _sample(node, stream, row) for node, stream in streams.items()})
        except EndOfStreamError:
            break
        except SourceError:
            # A source may fail past its end. The bad sample is the more useful error.
            if failure is None:
                raise
            break
        except SampleError as error:
            if not streams or on_error != "skip":
                raise
            failure = failure or error
            continue
        seen = {value: column[0] for value, column in zip(values, columns, strict=True)}
        samples = {value: np.asarray(sample) for value, sample in seen.items() if sample is not None} | samples
        if all(value in samples for value in needed):
            return samples
    if failure is not None:
        raise failure
    value = next(value for value in needed if value not in samples)
    raise DefinitionError(
        f"{value} needs one shape, and none of the first {limit} samples takes its branch",
        given=value.spec,
        fix=fix_for_ragged(value),
        where=value.node.where,
    )


def _sample(node: Node, stream: Stream, number: int) -> Columns:
    """Return one of the first samples of a stream."""
    try:
        return stream.probe_later(number) if number else stream.probe()
    except EndOfStreamError:
        if number:
            raise
        raise SourceError("there are no data: the source ends before the first batch", where=node.where) from None
    except PenstockError as error:
        error.where = error.where or node.where
        raise
