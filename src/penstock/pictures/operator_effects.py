"""Effects of operators: what each operator of a definition takes, draws and returns for some samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.core import Array, Indices
from penstock.core.stage_timers import StageTimers
from penstock.engine.executable import Executable, lead_reader
from penstock.engine.graph_program import GraphProgram
from penstock.engine.host.run_context import RunContext
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.engine.host.stream_feed import StreamFeeder
from penstock.errors import SampleError
from penstock.graph import Graph, Node, Value
from penstock.graph.identity.graph_calls import Call, GraphCalls
from penstock.numerics.random_bits import random_bits, row_counters
from penstock.pictures.output_info import OutputInfo, describe_output
from penstock.plan.engine_operators import RowCoordinates
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.sources.stream import EndOfStreamError

# Larger arrays are not written out as arguments and draws.
_MAX_NUMBERS = 16

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class SampleValue:
    """A value of one sample.

    Args:
        array: The value.
        info: Description of the value.
        outputs: Names under which a batch has it; none for an intermediate value.
    """

    array: Array
    info: OutputInfo
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class OperatorEffect:
    """A call of an operator for one sample.

    Args:
        name: Name of the operator, numbered if the definition uses it several times.
        line: Line of the definition.
        arguments: Inputs, whose name is empty, and arguments, as text.
        draws: Random numbers that the operator draws, by name.
        values: Results; none if the sample takes another branch.
    """

    name: str
    line: str
    arguments: Pairs
    draws: Pairs
    values: tuple[SampleValue, ...]


@dataclass(frozen=True)
class SampleEffects:
    """The calls of all operators for one sample.

    Args:
        title: Number of the sample in its data set.
        origin: Path of its file, or the place in its database; "" if unknown.
        effects: The calls, in the order of the definition.
        error: Message of the error if the sample is bad.
    """

    title: str
    origin: str
    effects: tuple[OperatorEffect, ...]
    error: str = ""


@dataclass(frozen=True)
class DefinitionEffects:
    """The calls of all operators of a definition for its first samples.

    Args:
        name: Name of the definition.
        seed: Seed of the random numbers.
        order_seed: Seed of the shuffles.
        samples: The samples, in the order of the first epoch.
    """

    name: str
    seed: int
    order_seed: int
    samples: tuple[SampleEffects, ...]


class EffectRecorder:
    """Computes every value of a definition for some samples, in the caller's thread.

    Args:
        executable: The planned definition.
        readings: Its readers. Bad samples are errors, whatever their policy.
        schedule: Steps of the iterator.
        names: Names of the outputs, in order.
        seed: Seed of the random numbers.
    """

    def __init__(
        self,
        executable: Executable,
        readings: Mapping[Node, ShardedReader],
        schedule: Schedule,
        names: Sequence[str],
        seed: int,
    ) -> None:
        graph = executable.plan.graph
        values = tuple(value for node in graph.nodes for value in node.values)
        outputs: dict[Value, tuple[str, ...]] = {}
        for name, value in zip(names, graph.outputs, strict=True):
            outputs[value] = (*outputs.get(value, ()), name)
        strict = {node: _strict(reading) for node, reading in readings.items()}
        program, layout, streams = executable.program, executable.layout, executable.program.streams
        feeder = None
        if graph.feeds:
            by_node = {node: streams[node.id] for node in graph.feeds}
            feeder = StreamFeeder(by_node, program.local, layout.shards, layout.blocks, schedule)
        self._lead = lead_reader(strict)
        context = RunContext(strict, self._lead, seed, schedule, StageTimers(), feeder=feeder)
        # The host computes the same values as the device, up to rounding, and gives those between two operators.
        target = replace(executable.plan.target, placement="host")
        self._program = GraphProgram(Graph(values, graph.name, graph.preserved), context, target)
        self._values, self._schedule, self._seed = values, schedule, seed
        self._calls, self._outputs = GraphCalls(graph), outputs

    def samples(self, count: int) -> tuple[SampleEffects, ...]:
        """Return the first samples of the first epoch.

        Args:
            count: Largest number of samples.
        """
        step, state = self._schedule.first(), None
        samples: list[SampleEffects] = []
        while len(samples) < count and not step.epoch and not self._schedule.is_epoch_end(step):
            rows = np.arange(min(count - len(samples), step.rows))
            try:
                columns, state = self._program.run(step, state=state, rows=rows)
                samples += [self._sample(step, row, columns, row) for row in range(len(columns[0]))]
            except SampleError:
                samples += [self._alone(step, row, state) for row in rows.tolist()]
            except EndOfStreamError:
                break
            step = self._schedule.next_step(step)
        return tuple(samples)

    def _alone(self, step: BatchStep, row: int, state: Any) -> SampleEffects:
        """Compute a row of a batch of which one sample is bad."""
        try:
            columns, _ = self._program.run(step, state=state, rows=np.array([row]))
        except SampleError as error:
            return SampleEffects(*self._origin(step, row), (), str(error))
        return self._sample(step, row, columns, 0)

    def _sample(self, step: BatchStep, row: int, columns: Sequence[Any], place: int) -> SampleEffects:
        arrays: dict[Value, Array] = {}
        for value, column in zip(self._values, columns, strict=True):
            # A dense value has zeros for the samples of other branches, so the guard decides. It comes first.
            guard = value.node.guard
            if column[place] is not None and (guard is None or (arrays.get(guard))):
                arrays[value] = np.asarray(column[place])
        at = self._coordinates(step, row)
        effects = tuple([self._effect(call, arrays, at) for call in self._calls.nodes])
        return SampleEffects(*self._origin(step, row), effects)

    def _effect(self, call: Call, arrays: Mapping[Value, Array], at: RowCoordinates) -> OperatorEffect:
        nodes, results = self._calls.nodes[call], self._calls.results(call)
        draws = tuple([pair for node in nodes for pair in self._draws(node, results, arrays, at)])
        values = tuple(
            [
                SampleValue(arrays[value], describe_output(value), self._outputs.get(value, ()))
                for value in results
                if value in arrays
            ]
        )
        where = nodes[-1].where.short

        def text(value: Value, name: str) -> str:
            array = arrays.get(value)
            return name if array is None or array.size > _MAX_NUMBERS else f"{number_text(array)} ({name})"

        arguments = tuple(self._calls.arguments(call, text))
        return OperatorEffect(self._calls.names[call], where, arguments, draws, values)

    def _draws(
        self, node: Node, results: Sequence[Value], arrays: Mapping[Value, Array], at: RowCoordinates
    ) -> Iterator[tuple[str, str]]:
        """Yield the random numbers of a node, as far as they are few."""
        bits = node.operator.random_bits
        if not bits or not node.values or node.values[0] not in arrays:
            return
        if node.inputs and node.inputs[0] in arrays:
            (words,) = random_bits(np, *node.key(self._seed), row_counters(at.epoch, at.positions), bits)
            drawn = node.operator.draws(words, arrays[node.inputs[0]].shape)
            yield from ((name, str(number)) for name, number in drawn.items())
            if drawn:
                return
        for value in node.values:
            if value in results and value in arrays and arrays[value].size <= _MAX_NUMBERS:
                yield node.kind.rpartition(".")[2], number_text(arrays[value])

    def _coordinates(self, step: BatchStep, row: int) -> RowCoordinates:
        rows: Indices = np.array([row])
        if self._lead is not None:
            return self._lead.coordinates(step, rows)
        return RowCoordinates(step.epoch, rows + step.row, np.ones(1, np.bool_))

    def _origin(self, step: BatchStep, row: int) -> tuple[str, str]:
        """Return the number of a sample in its data set, and where it is stored."""
        if self._lead is None:
            return f"sample {step.row + row}", ""
        (sample,) = self._lead.samples(step, np.array([row]))
        index = int(sample.indices[0])
        return f"sample {index}", sample.source.describe(index) if sample.source.path(index) is not None else ""


def number_text(array: Array) -> str:
    """Return the numbers of a small array as text.

    >>> number_text(np.float32(0.1)), number_text(np.array([[1, 2], [3, 4]]))
    ('0.1', '[[1, 2], [3, 4]]')
    """
    if array.dtype.kind not in "biufc":
        array = array.astype(np.float32)  # bfloat16
    if not array.ndim:
        return str(array.item()) if array.dtype.kind != "f" else f"{array.item():.6g}"
    if array.dtype.kind == "f":
        return np.array2string(array, separator=", ", precision=6, max_line_width=10**6).replace("\n", "")
    return str(array.tolist())


def _strict(reading: ShardedReader) -> ShardedReader:
    """Return a reader for which bad samples are errors."""
    strict = copy(reading)
    strict.readers = tuple(replace(reader, on_error="raise") for reader in reading.readers)
    return strict
