"""Graph program: a planned graph that computes rows in the caller's thread, on columns that the caller has.

Eager calls, debug mode and the probe of sample 0 run graphs with it. A `Run` computes batches ahead, on threads.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np

from penstock.core import Array, Column, Indices, Spec
from penstock.engine.host.chunk_executor import Chunk
from penstock.engine.host.column_rows import select_rows
from penstock.engine.host.host_program import HostProgram
from penstock.engine.host.run_context import RunContext
from penstock.engine.host.stream_feed import FedBatch, StreamFeeder
from penstock.errors import ContextError
from penstock.graph import Graph, Node, StreamInput, WholeBatchKernel
from penstock.plan.placement import TargetMachine
from penstock.plan.plan import make_plan
from penstock.sources.order.schedule import BatchStep
from penstock.sources.stream import BatchRequest, Columns, Stream

_ON_HOST = TargetMachine(placement="host")


class GivenColumn(Stream):
    """Input of a graph whose samples the caller has.

    Args:
        spec: Spec of a sample.
        column: The samples. None if they are given to each run of the program.
        single: True if the batch is one sample without others, for messages.

    Attributes:
        column: The samples.
        probed: True if the definition has read the first sample while it was traced.
    """

    def __init__(self, spec: Spec, column: Column | None = None, *, single: bool = False) -> None:
        super().__init__()
        self.specs = (spec,)
        self.column = column
        self.probed = False
        self._single = single

    def produce(self, request: BatchRequest) -> Columns:
        """Return the samples."""
        return self.batch(request)

    def batch(self, request: BatchRequest) -> Columns:
        """Return the samples, whichever batch is requested."""
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
        """Return a constant, because no state of such a program is saved."""
        return "given"

    def sample_name(self, number: int, epoch: int, row: int) -> str:
        """Return the name of a sample in messages."""
        del epoch, row
        return "its input" if self._single else f"sample {number} of the batch"


class GraphProgram:
    """A graph that is computed in the caller's thread. Several threads may run it.

    Args:
        graph: The graph.
        context: Context of the runs.
        target: The machine; by default the host alone.

    Attributes:
        inputs: Inputs of the graph, whose columns a run needs.
        seed: Seed of its random numbers.
    """

    def __init__(self, graph: Graph, context: RunContext, target: TargetMachine = _ON_HOST) -> None:
        self._plan = plan = make_plan(graph, target, dense_outputs=False)
        numbers = {value: number for number, value in enumerate(plan.results)}
        self._outputs = [numbers.get(value, -1) for value in graph.outputs]
        self._slots: list[Array | None] = [None] * len(plan.results)
        self.inputs = graph.feeds
        self._whole = any(isinstance(node.operator, WholeBatchKernel) for node in graph.nodes)
        self._lock = threading.Lock()
        self._set_context(context)
        self._last_seeded = self

    def _set_context(self, context: RunContext) -> None:
        self._context = context
        self._run: Any = None
        self._host = HostProgram(self._plan, context)
        self.seed = context.seed

    def with_seed(self, seed: int) -> GraphProgram:
        """Return the same program with another seed. The last one is kept for the next call."""
        program = self._last_seeded
        if program.seed != seed:
            program = copy(self)
            program._set_context(replace(self._context, seed=seed))  # noqa: SLF001  # same class
            self._last_seeded = program
        return program

    def compute(self, step: BatchStep, columns: Mapping[Node, Columns], rows: Indices | None = None) -> list[Any]:
        """Compute a batch of a graph that the host computes alone.

        Args:
            step: The batch.
            columns: Columns of each input.
            rows: Numbers of the rows to compute, ascending; all by default.

        Returns:
            A column per output.

        Raises:
            PenstockError: A sample cannot be computed.
        """
        fed = FedBatch(step.rows, columns, _same_rows)
        # An operator on whole batches needs every row.
        numbers = np.arange(step.rows) if rows is None or self._whole else rows
        results = self._host.run_rows(Chunk(step, numbers, self._slots, fed)).columns
        outputs = [results[number] for number in self._outputs]
        return outputs if rows is None or not self._whole else [select_rows(column, rows) for column in outputs]

    def run(
        self,
        step: BatchStep,
        columns: Mapping[Node, Columns] | None = None,
        state: Any = None,
        rows: Indices | None = None,
    ) -> tuple[list[Any], Any]:
        """Compute a batch, with the device program of the graph if it has one.

        Args:
            step: The batch.
            columns: Columns of each input, a `GivenColumn`; by default those that the inputs hold, or those of the
                context's feeder if it has one.
            state: State of stateful operators before the batch; None for the initial one.
            rows: Numbers of the rows to return, ascending; all by default.

        Returns:
            A column per output, in host memory, and the state after the batch.

        Raises:
            PenstockError: A sample cannot be computed.
        """
        if not self._plan.device:
            if columns is None and self._context.feeder is not None:
                fed = self._context.feeder.next_batch(step, at_once=True)
                # A source may return fewer rows than a full batch.
                step, columns = replace(step, rows=fed.rows), fed.columns
                rows = None if rows is None else rows[rows < fed.rows]
            held = {node: (_given(node).column,) for node in self.inputs} if columns is None else columns
            return self.compute(step, cast(Mapping[Node, Columns], held), rows), None
        # The inputs hold the columns of one batch at a time.
        with self._lock:
            for node, (column,) in (columns or {}).items():
                _given(node).column = column
            run = self._run = self._run or self._start()
            run.resume(step, state)
            outputs, _ = run.outputs(step)
            after = run.carried(self._context.schedule.next_step(step))
        results = [output if isinstance(output, list) else np.asarray(output) for output in outputs]
        if rows is not None:
            results = [select_rows(result, rows[rows < len(result)]) for result in results]
        return results, after

    def _start(self) -> Any:
        """Return a run of the graph, with its device program."""
        from penstock.engine.run import Run  # noqa: PLC0415  # needs JAX, which programs of the host do not
        from penstock.engine.transfer.batch_layout import SingleDevice  # noqa: PLC0415  # as above

        feeder = self._context.feeder
        if feeder is None and self.inputs:
            streams = {node: (_given(node),) for node in self.inputs}
            feeder = StreamFeeder(streams, (), (0,), 1, self._context.schedule)
        return Run(self._plan, SingleDevice(), replace(self._context, feeder=feeder), narrow=False)


def _same_rows(node: Node, numbers: Indices) -> Indices:
    del node
    return numbers


def _given(node: Node) -> GivenColumn:
    operator = node.operator
    assert isinstance(operator, StreamInput)
    assert isinstance(operator.stream, GivenColumn)
    return operator.stream
