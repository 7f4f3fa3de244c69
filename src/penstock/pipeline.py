"""`Pipeline` and `pipeline_def`: a definition is traced to a graph, the graph is planned, the plan is run."""

from __future__ import annotations

import functools
import inspect
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Self, TypedDict, Unpack

import jax

from penstock.data.order import mix
from penstock.errors import ArgumentTypeError, ContextError, DefinitionError, UsageError, did_you_mean
from penstock.graph.node import Graph, Node
from penstock.graph.operator import Reader
from penstock.graph.trace import Trace
from penstock.host.pool import Serial, Threads
from penstock.host.probe import resolved
from penstock.host.reading import Reading, Step, check_same_specs
from penstock.host.tensors import TensorList
from penstock.meter import Meter
from penstock.plan.explain import explain
from penstock.plan.merge import Program, merge
from penstock.plan.place import PlacementWish, Target
from penstock.plan.plan import Plan, make_plan
from penstock.run import Run
from penstock.transfer.layout import Layout, SingleDevice
from penstock.types import as_dtype

DEFAULT_THREADS = 4


class PipelineHints(TypedDict, total=False):
    """Options of DALI's Pipeline that can only change speed, memory or diagnostics; they do nothing here."""

    exec_dynamic: bool | None
    bytes_per_sample: int
    set_affinity: bool
    max_streams: int | None
    default_cuda_stream_priority: int | None
    enable_memory_stats: bool
    enable_checkpointing: bool
    py_num_workers: int
    py_start_method: str
    py_callback_pickler: Any
    stream_policy: Any
    concurrency: Any


class Pipeline:
    """A definition with the parameters of its execution.

    Make one by calling a function decorated with `pipeline_def`, or fill one in a `with` statement and name its outputs
    with `set_outputs`. `run` gives its batches one by one; `penstock.DALIGenericIterator` iterates over epochs.

    Args:
        batch_size: how many samples a batch has.
        num_threads: how many threads work on the host; -1 takes 4.
        device_id: which of the local devices a pipeline in a list of pipelines is for; None: the default device.
        seed: what all random numbers and shuffles derive from; None or a negative one draws it.
        exec_pipelined: whether batches are prepared ahead.
        prefetch_queue_depth: how many are prepared ahead; a dict, as DALI takes, counts with its "cpu_size".
        exec_async: whether host work runs on threads; False runs it in the caller, the plain way.
        placement: "host" or "device" puts all that can be there on the host or in the device program; "auto" chooses.
        checkpoint: not for pipelines: iterators are resumed with their `restore`.
        output_dtype: the dtype that the outputs must have, one or one per output; None checks nothing.
        output_ndim: the number of axes that a sample of each output must have; likewise.
        **hints: options of DALI's that do nothing here.

    Raises:
        UsageError: a batch size or number of threads that cannot be.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = Pipeline(batch_size=2, num_threads=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.readers.arrays([10, 20, 30]))
        >>> [pipeline.run()[0].as_array().tolist() for _ in range(2)]
        [[10, 20], [30, 10]]
    """

    def __init__(
        self,
        batch_size: int = -1,
        num_threads: int = -1,
        device_id: int | None = None,
        seed: int | None = None,
        exec_pipelined: bool = True,
        prefetch_queue_depth: int | Mapping[str, int] = 2,
        exec_async: bool = True,
        *,
        placement: PlacementWish = "auto",
        checkpoint: None = None,
        output_dtype: Any = None,
        output_ndim: int | Sequence[int | None] | None = None,
        **hints: Unpack[PipelineHints],
    ) -> None:
        _check_hints(hints)
        if not isinstance(batch_size, int) or batch_size < 1:
            raise UsageError("a pipeline needs a batch size", given=batch_size, fix="batch_size=... with at least 1")
        if num_threads == 0 or num_threads < -1:
            raise UsageError(
                "num_threads must be at least 1", given=num_threads, fix="exec_async=False uses no threads"
            )
        if placement not in ("auto", "host", "device"):
            raise UsageError("no such placement", given=repr(placement), expected='"auto", "host" or "device"')
        if checkpoint is not None:
            raise UsageError("a Pipeline takes no checkpoint", fix="restore the iterator: iterator.restore(state)")
        self.max_batch_size = batch_size
        self.num_threads = DEFAULT_THREADS if num_threads < 0 else num_threads
        self.device_id = device_id
        self.seed = secrets.randbits(63) if seed is None or seed < 0 else seed
        depth = (
            prefetch_queue_depth if isinstance(prefetch_queue_depth, int) else prefetch_queue_depth.get("cpu_size", 2)
        )
        self.prefetch_queue_depth = depth if exec_pipelined and exec_async else 0
        self.exec_async = exec_async
        self.placement: PlacementWish = placement
        self._output_dtype, self._output_ndim = output_dtype, output_ndim
        self._trace = Trace()
        self._entered: list[AbstractContextManager[Any]] = []
        self._graph: Graph | None = None
        self._planned: Planned | None = None
        self._run: Run | None = None
        self._step: Step | None = None

    def __enter__(self) -> Self:
        context = self._trace.active()
        context.__enter__()
        self._entered.append(context)
        _pipelines.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _pipelines.pop()
        self._entered.pop().__exit__(None, None, None)

    @staticmethod
    def current() -> Pipeline | None:
        """The pipeline whose definition is running."""
        return _pipelines[-1] if _pipelines else None

    def set_outputs(self, *outputs: Any) -> None:
        """Say what a batch consists of: nodes, or values that become constants."""
        graph = self._trace.graph(outputs)
        for number, value in enumerate(graph.outputs):
            dtype, ndim = _nth(self._output_dtype, number), _nth(self._output_ndim, number)
            if dtype is not None and value.spec.dtype != as_dtype(dtype):
                raise DefinitionError(f"output {number} has another dtype", given=value.spec, expected=as_dtype(dtype))
            if ndim is not None and len(value.spec.shape) != ndim:
                raise DefinitionError(f"output {number} has another rank", given=value.spec, expected=f"{ndim} axes")
        self._graph, self._planned, self._run = graph, None, None

    @property
    def graph(self) -> Graph:
        """What the definition says.

        Raises:
            ContextError: there are no outputs yet.
        """
        if self._graph is None:
            raise ContextError("the pipeline has no outputs", fix="call set_outputs in its `with` statement")
        return self._graph

    @property
    def num_outputs(self) -> int:
        """How many outputs a batch has."""
        return len(self.graph.outputs)

    def output_dtype(self) -> list[Any]:
        """The dtype of each output."""
        return [value.spec.dtype for value in self.graph.outputs]

    def output_ndim(self) -> list[int]:
        """The number of axes of a sample of each output."""
        return [len(value.spec.shape) for value in self.graph.outputs]

    def build(self) -> None:
        """Plan the definition and make it ready to run. `run` does so by itself.

        Raises:
            PenstockError: the definition or its first sample is not right.
        """
        if self._run is None:
            planned = Planned.of([self.graph], SingleDevice(), self.placement, dense_outputs=False)
            rows = self.max_batch_size
            readings = planned.readings(self.seed, lead=None)
            strides = tuple(reading.stride(rows) for reading in readings.values())

            def after(step: Step) -> Step:
                totals = tuple(total + stride for total, stride in zip(step.totals, strides, strict=True))
                row = step.row + (strides[0] if strides else rows)
                return replace(step, row=row, totals=totals)

            self._planned, self._after = planned, after
            self._run = planned.run(readings, self.seed, self.pool(), self.prefetch_queue_depth, after, Meter())
            self._step = Step(0, 0, (0,) * len(readings), rows)

    def pool(self) -> Threads | Serial:
        """Where its host work runs."""
        return Threads(self.num_threads) if self.exec_async else Serial()

    def run(self) -> tuple[TensorList, ...]:
        """The next batch, an output each. Readers go on from epoch to epoch without end.

        Raises:
            SampleError: a sample of the batch is bad.
        """
        self.build()
        assert self._run is not None
        assert self._planned is not None
        assert self._step is not None
        step, plan = self._step, self._planned.plan
        if plan.device:
            outputs: Sequence[Any] = self._run.arrays(step)
        else:
            columns = dict(zip(plan.results, self._run.columns(step), strict=True))
            outputs = [columns[value] for value in plan.graph.outputs]
        self._step = self._after(step)
        return tuple(TensorList(o, value.spec) for o, value in zip(outputs, plan.graph.outputs, strict=True))

    def outputs(self) -> tuple[TensorList, ...]:
        """The next batch; the same as `run`."""
        return self.run()

    def reset(self) -> None:
        """Go back to the beginning: the next batch is the first one again."""
        if self._step is not None:
            self._step = Step(0, 0, (0,) * len(self._step.totals), self.max_batch_size)

    def close(self) -> None:
        """End the threads. The pipeline may be run again."""
        if self._run is not None:
            self._run.close()

    def reader_meta(self, name: str | None = None) -> dict[str, Any]:
        """What is known of a reader, or of all readers that have a name.

        Returns:
            epoch_size, epoch_size_padded, number_of_shards, shard_id, pad_last_batch and stick_to_shard; without `name`
            a dict of such, by name.

        Raises:
            UnknownNameError: no reader has that name.
        """
        if name is None:
            return {node.name: _meta(node) for node in self.graph.readers if node.name}
        return _meta(self.graph.reader(name))

    def epoch_size(self, name: str | None = None) -> Any:
        """How many samples an epoch of a reader has; without `name` a dict of such, by name."""
        if name is None:
            return {node.name: _meta(node)["epoch_size_padded"] for node in self.graph.readers if node.name}
        return _meta(self.graph.reader(name))["epoch_size_padded"]

    def explain(self) -> str:
        """What runs where, and why, as text."""
        self.build()
        assert self._planned is not None
        return self._planned.explain()


_pipelines: list[Pipeline] = []


def _check_hints(hints: Mapping[str, Any]) -> None:
    for name in hints:
        if name not in PipelineHints.__annotations__:
            known = {*PipelineHints.__annotations__, *inspect.signature(Pipeline).parameters} - {"hints"}
            raise ArgumentTypeError(f"a Pipeline has no argument {name!r}", given=name, fix=did_you_mean(name, known))


def _nth(given: Any, number: int) -> Any:
    return given[number] if isinstance(given, list | tuple) else given


def _meta(node: Node) -> dict[str, Any]:
    reader = node.operator
    assert isinstance(reader, Reader)
    samples, shards = len(reader.source), reader.num_shards
    return {
        "epoch_size": samples,
        "epoch_size_padded": -(-samples // shards) * shards if reader.pad_last else samples,
        "number_of_shards": shards,
        "shard_id": reader.shard_id,
        "pad_last_batch": int(reader.pad_last),
        "stick_to_shard": int(reader.stick),
    }


@dataclass(frozen=True)
class Planned:
    """A definition, planned for the devices of a layout: everything but the threads."""

    program: Program
    plan: Plan
    layout: Layout

    @staticmethod
    def of(
        graphs: Sequence[Graph],
        layout: Layout,
        placement: PlacementWish,
        *,
        dense_outputs: bool,
        mask: bool = False,
    ) -> Planned:
        """Merge the graphs of all blocks, look at sample 0 where that is needed, and plan.

        Raises:
            PenstockError: the definition or its first sample is not right.
        """
        shards = layout.shards if len(graphs) > 1 else (0,)
        program = merge(graphs, shards, layout.blocks)
        for readers in program.readers.values():
            check_same_specs(readers)
        program = resolved(program, dense_outputs=dense_outputs)
        target = Target(layout.platform, bool(jax.config.read("jax_enable_x64")), placement)
        return Planned(program, make_plan(program.graph, target, dense_outputs=dense_outputs, mask=mask), layout)

    def readings(self, seed: int, lead: str | None) -> dict[Node, Reading]:
        """How each reader is read; the one named `lead` defines the epoch."""
        return {
            node: Reading(
                self.program.readers[node.serial],
                self.layout.shards,
                self.layout.blocks,
                seed=mix(*node.key(seed)),
                number=number,
                leads=lead is not None and node.name == lead,
            )
            for number, node in enumerate(self.plan.graph.readers)
        }

    def run(
        self,
        readings: Mapping[Node, Reading],
        seed: int,
        pool: Threads | Serial,
        depth: int,
        after: Callable[[Step], Step],
        meter: Meter,
    ) -> Run:
        """The plan in motion."""
        return Run(self.plan, readings, leading(readings), seed, self.layout, pool, depth, after, meter)

    def explain(self) -> str:
        """What runs where, and why."""
        return explain(self.plan, self.program.readers)


def leading(readings: Mapping[Node, Reading]) -> Reading | None:
    """The reading whose positions number the rows: the one that defines the epoch, else the first."""
    named = [reading for reading in readings.values() if reading.leads]
    return next(iter(named or readings.values()), None)


def pipeline_def(
    fn: Callable[..., Any] | None = None,
    *,
    enable_conditionals: bool = False,
    debug: bool = False,
    **pipeline_arguments: Any,
) -> Any:
    """Turn a function that builds a graph into one that makes a `Pipeline`.

    Args:
        fn: the definition: it calls operators and returns a node or a tuple of nodes.
        enable_conditionals: not offered; `if` on a node is an error.
        debug: a hint.
        **pipeline_arguments: arguments of `Pipeline`; those given when the pipeline is made stand instead.

    Returns:
        A function that takes the definition's arguments and `Pipeline`'s, told apart by name, and returns the pipeline.

    Raises:
        DefinitionError: `enable_conditionals` is set.

    Example:
        >>> from penstock import fn, pipeline_def
        >>> @pipeline_def(batch_size=2)
        ... def numbers(first):
        ...     return fn.readers.arrays([first, first + 1])
        >>> numbers(first=5).run()[0].as_array().tolist()
        [5, 6]
    """
    del debug
    if enable_conditionals:
        raise DefinitionError("conditionals are not offered", fix="compute with the flag: a * flag + b * (1 - flag)")
    if fn is None:
        return functools.partial(pipeline_def, **pipeline_arguments)
    definition = fn

    @functools.wraps(definition)
    def make(*args: Any, **kwargs: Any) -> Pipeline:
        ours, theirs = split_arguments(definition, {**pipeline_arguments, **kwargs})
        return trace(definition, args, ours, Pipeline(**theirs))

    make.definition = definition  # type: ignore[attr-defined]  # `data_iterator` takes such functions, too
    make.defaults = pipeline_arguments  # type: ignore[attr-defined]
    return make


def split_arguments(
    definition: Callable[..., Any], arguments: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of the definition, by name, and the rest, which are the pipeline's.

    Raises:
        ArgumentTypeError: the definition takes arbitrary names, so they cannot be told apart.
    """
    parameters = inspect.signature(definition).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        raise ArgumentTypeError(
            f"{definition.__name__} takes **{list(parameters)[-1]}: its arguments cannot be told from the pipeline's",
            fix="name the arguments",
        )
    ours = {name: value for name, value in arguments.items() if name in parameters}
    return ours, {name: value for name, value in arguments.items() if name not in parameters}


def trace(
    definition: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], pipeline: Pipeline
) -> Pipeline:
    """Run a definition once and make what it returns the outputs of the pipeline."""
    pipeline._trace.name = definition.__name__  # noqa: SLF001  # the same module
    with pipeline:
        outputs = definition(*args, **kwargs)
        pipeline.set_outputs(*(outputs if isinstance(outputs, tuple | list) else (outputs,)))
    return pipeline
