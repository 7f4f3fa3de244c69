"""Debug mode: a definition runs for each batch, and each operator computes as it is called.

So `print` and a debugger show real values, and an error is raised at the operator's line. Each node is planned and run
alone, as an eager call is, on the values of the nodes before it.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, cast

import jax
import numpy as np

from penstock.core import Spec
from penstock.core.dataclass import dataclass
from penstock.core.stage_timers import StageTimers
from penstock.engine.executable import Executable
from penstock.engine.graph_program import GivenColumn, GraphProgram
from penstock.engine.host.run_context import RunContext
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.engine.transfer.batch_layout import SingleDevice
from penstock.errors import PenstockError, SourceError, UsageError, did_you_mean
from penstock.graph import DataNode, Reader, StreamInput, Trace, apply
from penstock.graph.ir.node import Graph, Node, Value, infer_specs
from penstock.pipeline.tensor_list import TensorListCPU, TensorListGPU, tensor_list
from penstock.plan.engine_operators import engine_node
from penstock.plan.placement import PlacementHint, TargetMachine
from penstock.sources.external.array_conversion import copy_arrays
from penstock.sources.external.feed_queue import FeedQueue
from penstock.sources.order.schedule import Schedule
from penstock.sources.stream import BatchRequest, EndOfStreamError, Stream


@dataclass
class DebugExecutor:
    """Eager executor of a definition. A `Trace` calls it for each node.

    Args:
        name: Name of the definition.
        rows: Rows of a batch.
        seed: Seed of random numbers.
        order_seed: Seed of the readers' orders.
        placement: Whether operators run on the host or the device.
        shared: Sources that the traces of all batches share.
    """

    name: str
    rows: int
    seed: int
    order_seed: int
    placement: PlacementHint
    batches: int = 0
    shared: dict[Any, Any] = field(default_factory=dict[Any, Any])
    columns: dict[Value, Any] = field(default_factory=dict[Value, Any])
    fed: dict[str | None, deque[tuple[Any, str | None]]] = field(default_factory=dict[str | None, Any])
    _lead: ShardedReader | None = None
    _readers: dict[int, tuple[Reader, Mapping[Node, ShardedReader]]] = field(default_factory=dict[int, Any])
    _states: dict[int, Any] = field(default_factory=dict[int, Any])
    _epoch: int = 0
    _iteration: int = 0
    _ended: bool = False
    _now: int = 0

    def run(self, define: Callable[[], Any]) -> tuple[Graph, tuple[Any, ...]]:
        """Return the graph of the next batch, and a tensor list per output.

        Args:
            define: The definition.

        Raises:
            PenstockError: An operator refuses its arguments, or fails.
            StopIteration: An external source has ended.
        """
        # The keys are nodes of the last run, so the dict would otherwise keep all batches alive.
        self.columns.clear()
        # The source of the last batch may have returned fewer rows.
        self._now = self.rows
        # The definition runs again, so it needs a new trace; sources must be the same objects, or they would start
        # over.
        trace = Trace(self.name, rows=self.rows, batch=self.rows, eager=self, shared=self.shared)
        try:
            if self._ended:
                raise EndOfStreamError
            with trace.active():
                outputs = define()
                graph = trace.graph(outputs)
            self._check_fed(trace)
        except EndOfStreamError:
            self._ended = True
            raise StopIteration from None
        self.batches += 1
        self._iteration += 1
        return graph, tuple(self.get(value) for value in graph.outputs)

    def feed(self, name: str | None, data: Any, layout: str | None) -> None:
        """Hold a batch for the input of that name, until the definition runs."""
        # A copy, as in a planned pipeline: the user may overwrite the array before the definition runs.
        self.fed.setdefault(name, deque()).append((copy_arrays(data), layout))

    def fill(self, name: str, stream: FeedQueue) -> None:
        """Give an input what was held for it."""
        for data, layout in self.fed.pop(name, ()):
            stream.feed(data, layout)

    def _check_fed(self, trace: Trace) -> None:
        unknown = list(self.fed)
        # Cleared before the error is raised, so that the next batch does not fail for the same name.
        self.fed.clear()
        if unknown:
            raise UsageError(
                f"the pipeline has no external_source without a source named {unknown[0]!r}",
                fix=did_you_mean(str(unknown[0]), trace.fed),
            )

    def reset(self) -> None:
        """Begin the next epoch if an external source has ended this one."""
        if self._ended:
            self._epoch, self._iteration, self._ended = self._epoch + 1, 0, False

    def get(self, value: Value) -> Any:
        """Return the batch of a value as a tensor list."""
        return tensor_list(self.columns[value], value.spec)

    def text(self, value: Value) -> str:
        """Return the batch of a value as text."""
        column = self.columns[value]
        return str(column) if isinstance(column, np.ndarray) else "\n".join(map(str, column))

    def batch(self, thing: Any) -> DataNode | None:
        """Return a node for a user's batch: a tensor list, or a list with an array per row. None for other values."""
        samples: Any = None
        layout = ""
        if isinstance(thing, TensorListCPU | TensorListGPU):
            samples, layout = [np.asarray(sample) for sample in cast(Any, thing).as_cpu()], thing.layout()
        elif isinstance(thing, list) and all(
            isinstance(item, np.ndarray | np.generic) for item in cast(list[Any], thing)
        ):
            samples = list(map(np.asarray, cast(list[Any], thing)))
        # A list with another number of arrays is not a batch but a constant.
        if samples is None or len(samples) != self._now:
            return None
        shapes = {sample.shape for sample in samples}
        shape = samples[0].shape if len(shapes) == 1 else (None,) * samples[0].ndim
        # Without common arguments: those of the running call belong to the operator that takes this batch.
        return apply(StreamInput(GivenColumn(Spec(samples[0].dtype, shape, layout), samples)), common={})

    def compute(self, node: Node) -> None:
        """Compute a node that was just recorded."""
        if isinstance(node.operator, StreamInput):
            self._feed(node, node.operator.stream)
            return
        if isinstance(node.operator, Reader):
            alone, readings = self._reader(node, node.operator)
        else:
            alone, readings = self._alone(node), {}
        strides = tuple(reading.stride(self.rows) for reading in readings.values())
        stride = self._lead.stride(self.rows) if self._lead else self.rows
        schedule = Schedule(self._now, None, stride, strides)
        context = RunContext(readings, self._lead, self.seed, schedule, StageTimers())
        target = TargetMachine(SingleDevice().platform, bool(jax.config.read("jax_enable_x64")), self.placement)
        program = GraphProgram(Graph(alone.values, self.name), context, target)
        step = schedule.step_at(self._epoch, self._iteration * stride, tuple(self.batches * item for item in strides))
        # Each batch has a new program. The state that an operator carries is passed on under the id of its node, which
        # is the same in each run of the definition, unlike the node itself.
        outputs, self._states[node.id] = program.run(step, state=self._states.get(node.id))
        self.columns.update(zip(node.values, outputs, strict=True))

    def _feed(self, node: Node, stream: Stream) -> None:
        """Read the batch of a source, which may have fewer rows than other batches.

        Raises:
            EndOfStreamError: The source has no more batches in this epoch.
            PenstockError: The source fails, was not fed, or returns another number of samples than there are rows.
        """
        turn = BatchRequest(self._epoch, self._iteration * self.rows, self.rows, self.rows)
        try:
            columns = stream.batch_copy(turn)
        except EndOfStreamError:
            stream.release(turn)
            raise
        except PenstockError as error:
            stream.clear_failure(turn)
            error.where = error.where or node.where
            raise
        rows = len(columns[0])
        # A smaller batch is fine as long as nothing was computed. Afterwards values would differ in their number of
        # rows.
        if rows != self._now and self.columns:
            raise SourceError(
                f"{node} returns another number of samples than the definition has computed before",
                given=rows,
                expected=self._now,
                fix="debug=False; or the external sources before all readers and random numbers",
                where=node.where,
            )
        self._now = rows
        self.columns.update(zip(node.values, columns, strict=True))
        stream.release(turn)

    def _reader(self, node: Node, reader: Reader) -> tuple[Node, Mapping[Node, ShardedReader]]:
        """Return a node with the reader alone, and its sharded reader, which the next batch reuses if it is equal."""
        known = self._readers.get(node.id)
        if known is None or not reader.same_order(known[0]):
            planned = Executable.build([Graph(node.values)], SingleDevice(), "host", dense_outputs=False)
            known = self._readers[node.id] = (reader, planned.readings(self.order_seed, None, self.rows))
        readings = known[1]
        ((alone, reading),) = readings.items()
        self._lead = self._lead or reading
        return alone, readings

    def _alone(self, node: Node) -> Node:
        """Return a copy of the node whose inputs are the computed columns of its sources."""
        argument = {value: self._known(value, node) for value in node.sources}
        alone = node.with_inputs(argument.__getitem__)
        return replace(alone, specs=infer_specs(alone.operator, alone.inputs, alone.arguments))

    def _known(self, value: Value, user: Node) -> Value:
        column, spec = self.columns[value], value.spec
        # As in a plan, sample 0 shows the shape and all other samples are checked against it.
        if user.operator.needs_one_shape and not spec.dense:
            spec = spec.probe(column[0].shape)
        return engine_node(StreamInput(GivenColumn(spec, column)), value.node.kind).values[0]
