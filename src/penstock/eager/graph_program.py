"""Graph program: a planned graph that computes columns which the caller already has."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.core import Array, Column, Spec
from penstock.core.stage_timers import StageTimers
from penstock.engine.host.host_program import Chunk, HostProgram
from penstock.engine.host.run_context import RunContext
from penstock.engine.host.stream_feed import FedBatch, StreamFeeder
from penstock.errors import ContextError
from penstock.graph import Graph, Node, StreamInput, Trace
from penstock.graph.ir.node import OperatorCall
from penstock.plan.engine_operators import engine_node
from penstock.plan.placement import TargetMachine
from penstock.plan.plan import make_plan
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.sources.stream import BatchRequest, Columns, Stream


class GivenColumn(Stream):
    """Stream of one column, which the caller sets for each batch.

    Args:
        spec: Spec of a sample.
        column: The samples from which a definition may read properties while it is traced.
        single: True if the batch is one sample without others.

    Attributes:
        column: The samples of the next batch.
        probed: True if the definition has read the first sample.
    """

    def __init__(self, spec: Spec, column: Column | None = None, *, single: bool = False) -> None:
        super().__init__()
        self.specs = (spec,)
        self.column: Column | None = column
        self.probed = False
        self._single = single

    def produce(self, request: BatchRequest) -> Columns:
        """Return the column."""
        return self.batch(request)

    def batch(self, request: BatchRequest) -> Columns:
        """Return the column, whichever batch is requested."""
        del request
        assert self.column is not None
        return (self.column,)

    def probe(self) -> Columns:
        """Return the first sample."""
        self.probed = True
        if self.column is None:
            raise ContextError("the sample is not known while the definition is traced")
        return (self.column[:1],)

    def same_source(self, other: Stream) -> bool:
        """Return True for the same object."""
        return other is self

    def fingerprint(self) -> str:
        """Return a constant: an eager call is not saved."""
        return "column"

    def sample_name(self, number: int, epoch: int, row: int) -> str:
        """Return the name of a sample in messages."""
        del epoch, row
        return "its input" if self._single else f"sample {number} of the batch"


def input_node(trace: Trace, stream: GivenColumn, kind: str = "input") -> Node:
    """Record the input of a graph whose columns are given."""
    operator = StreamInput(stream)
    node = engine_node(operator, kind)
    number = trace.next_id()
    call = OperatorCall(kind, (), ((number, 0),))
    node = replace(node, id=number, call=call)
    trace.nodes.add(node)
    return node


class GraphProgram:
    """A graph that is computed on columns, in the caller's thread.

    Args:
        graph: The graph. Its streams are `GivenColumn`s.
        seed: Seed of its random numbers.

    Attributes:
        inputs: The nodes of the graph's streams.
    """

    def __init__(self, graph: Graph, seed: int = 0) -> None:
        self._plan = make_plan(graph, TargetMachine(placement="host"), dense_outputs=False)
        self._slots: list[Array | None] = [None] * len(self._plan.results)
        self.inputs = {node.id: node for node in self._plan.graph.feeds}
        self._lock = threading.Lock()
        self._last: GraphProgram = self
        self._set_seed(seed)

    def with_seed(self, seed: int) -> GraphProgram:
        """Return the same program with another seed. The last one is kept."""
        program = self._last
        if program.seed != seed:
            program = copy(self)
            program._set_seed(seed)  # noqa: SLF001  # same class
            self._last = program
        return program

    def _set_seed(self, seed: int) -> None:
        self._context = RunContext({}, None, seed, Schedule(1, None, 1, ()), StageTimers())
        self._host = HostProgram(self._plan, self._context)
        self.seed = seed

    def run(self, columns: Mapping[int, Column], rows: int, position: int = 0) -> Sequence[Any]:
        """Compute the outputs.

        Args:
            columns: Column of each input, by the id of its node.
            rows: Number of samples.
            position: Position of the first sample, which selects its random numbers.

        Raises:
            PenstockError: A sample cannot be computed.
        """
        step = BatchStep(0, position, (), rows)
        if self._plan.device:
            return self._run_on_device(step, columns)
        fed = FedBatch(rows, {node: (columns[number],) for number, node in self.inputs.items()}, _all_rows)
        chunk = Chunk(step, np.arange(rows), self._slots, fed)
        return self._host.run_rows(chunk).columns

    def _run_on_device(self, step: BatchStep, columns: Mapping[int, Column]) -> Sequence[Any]:
        """Compute a graph with nodes that only XLA can compute: JAX functions."""
        from penstock.engine.run import Run  # noqa: PLC0415  # needs JAX, which host programs do not
        from penstock.engine.transfer.batch_layout import SingleDevice  # noqa: PLC0415  # as above

        # The streams hold the columns of one call at a time.
        with self._lock:
            streams = {node: (_stream(node),) for node in self.inputs.values()}
            for number, node in self.inputs.items():
                _stream(node).column = columns[number]
            schedule = Schedule(step.rows, None, step.rows, ())
            feeder = StreamFeeder(streams, (), (0,), 1, schedule)
            context = replace(self._context, schedule=schedule, feeder=feeder)
            run = Run(self._plan, SingleDevice(), context, narrow=False)
            run.resume(step, None)
            outputs, _ = run.outputs(step)
            for node in self.inputs.values():
                _stream(node).column = None
        return [output if isinstance(output, list) else np.asarray(output) for output in outputs]


def _all_rows(node: Node, numbers: Any) -> Any:
    del node
    return numbers


def _stream(node: Node) -> GivenColumn:
    operator = node.operator
    assert isinstance(operator, StreamInput)
    assert isinstance(operator.stream, GivenColumn)
    return operator.stream
