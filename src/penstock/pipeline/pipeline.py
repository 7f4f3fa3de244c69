"""`Pipeline`: a definition and the options of its execution."""

import secrets
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Annotated, Any, Literal, Self, Unpack

from penstock.core import user_call_site, with_call_site
from penstock.engine.host.chunk_executor import ChunkExecutor
from penstock.engine.host.worker_threads import SerialExecutor, ThreadExecutor
from penstock.errors import ArgumentTypeError, ContextError, PenstockError, UsageError
from penstock.graph import Graph, Range, Trace, check_annotations
from penstock.graph.tracing.eager_execution import WorkerOptions
from penstock.pipeline.debug_mode import DebugExecutor
from penstock.pipeline.definition import Definition
from penstock.pipeline.definition_call import DefinitionCall
from penstock.pipeline.pipeline_html import pipeline_html
from penstock.pipeline.pipeline_options import (
    MAX_BATCH,
    OutputRequirements,
    PipelineHints,
    check_hints,
    check_workers,
    host_queue_depth,
    local_device,
    no_batch_size,
)
from penstock.pipeline.run_state import decode_checkpoint
from penstock.pipeline.saved_pipeline import SavedPipeline
from penstock.pipeline.session import PipelineSession
from penstock.pipeline.tensor_list import TensorList
from penstock.plan.placement import PlacementHint
from penstock.sources.storage.byte_range import ReadCost

DEFAULT_THREADS = 4


class Pipeline(SavedPipeline):
    """A definition and the options of its execution.

    Make one by calling a function decorated with `pipeline_def`; or fill one in a `with` statement and name its outputs
    with `set_outputs`; or derive a class whose `define_graph` returns them. `run` returns batches one by one;
    `penstock.DataIterator` iterates over epochs.

    Args:
        batch_size: Samples per batch.
        num_threads: Most threads for host work; -1 means 4. More than there are CPUs only start if they may wait.
        num_processes: Worker processes for host work in place of threads, for Python functions that need more than one
            core. The definition is pickled for them. 0 uses threads. The batches are the same.
        input_hosts: Addresses of machines that run `penstock serve` and compute the host part of an iterator's batches,
            such as ``["grpc://10.0.0.1:7000"]``. The batches are the same.
        device_id: Index of the local device for the arrays. None, 0 and DALI's CPU_ONLY_DEVICE_ID mean the default
            device, from which JAX moves arrays as needed. If the process has one device, any number means that device.
        seed: Seed of all random numbers and shuffles. With None or a negative number, random numbers differ in each
            pipeline, but shuffles use seed 0, so that shards that are read by separate pipelines stay disjoint.
        exec_pipelined: If True, batches are prepared ahead.
        prefetch_queue_depth: Number of batches prepared ahead. Of a dict, as in DALI, "cpu_size" counts.
        exec_async: If True, host work runs on threads; if False, in the caller's thread.
        placement: "host" or "device" runs everything that can run there in that place; "auto" chooses.
        checkpoint: Position at which `run` or an iterator begins: from `checkpoint()` or an iterator's `checkpoints()`.
        output_dtype: Required dtype of all outputs, or one per output; None means any.
        output_ndim: Required number of axes of a sample, or one per output; None means any.
        output_layout: Required layout of a sample, or one per output; None means any.
        py_num_workers: Processes that call the sources of `fn.external_source(parallel=True)`; 0 means this process.
        py_start_method: Ignored. Workers are always new processes, because JAX has threads and cannot be forked.
        read_threads: Number of concurrent requests that read ahead from object stores and, if you set it, also from
            folders of files: for network file systems and slow disks. 0 disables reading ahead; -1 means 32 for each of
            `num_threads`, between 64 and 512, for object stores only.
        py_callback_pickler: Module or object with `dumps` and `loads` that sends sources to the workers, or a tuple of
            it and dicts of their keyword arguments; None means pickle, or cloudpickle for what pickle cannot send.
        debug: If True, the definition runs for each batch. Needs `pipeline_def`, see there, or `define_graph`.
        **hints: Options of DALI that have no effect here.

    Raises:
        UsageError: A batch size or number of threads is out of range.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = Pipeline(batch_size=2, num_threads=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.readers.arrays([10, 20, 30]))
        >>> [pipeline.run()[0].as_array().tolist() for _ in range(2)]
        [[10, 20], [30, 10]]
    """

    @check_annotations
    def __init__(
        self,
        batch_size: Annotated[int, Range(high=MAX_BATCH)] = -1,
        num_threads: Annotated[int, Range(-1, 4096)] = -1,
        device_id: int | None = None,
        seed: int | None = None,
        exec_pipelined: bool = True,
        prefetch_queue_depth: Annotated[int | Mapping[str, int], Range(0, 1000)] = 2,
        exec_async: bool = True,
        *,
        placement: PlacementHint = "auto",
        checkpoint: str | bytes | Mapping[str, Any] | None = None,
        output_dtype: Any = None,
        output_ndim: int | Sequence[int | None] | None = None,
        output_layout: str | Sequence[str | None] | None = None,
        debug: bool = False,
        py_num_workers: Annotated[int | None, Range(0, 4096)] = 1,
        py_start_method: Literal["fork", "forkserver", "spawn"] | None = "spawn",
        py_callback_pickler: Any = None,
        read_threads: Annotated[int, Range(-1, 4096)] = -1,
        num_processes: Annotated[int, Range(0, 256)] = 0,
        input_hosts: Sequence[str] | None = None,
        **hints: Unpack[PipelineHints],
    ) -> None:
        check_hints(hints)
        self._hints = hints
        if batch_size < 1 and (batch_size != -1 or debug):
            raise no_batch_size(batch_size)
        if num_threads == 0:
            raise UsageError(
                "num_threads must be at least 1", given=num_threads, fix="exec_async=False uses no threads"
            )
        self.restored_state = None if checkpoint is None else decode_checkpoint(checkpoint, debug=debug)
        self.max_batch_size, self.num_processes = batch_size, num_processes
        ahead = exec_async and exec_pipelined and not debug
        self.input_hosts = check_workers(num_processes, input_hosts, ahead=ahead)
        self.call: DefinitionCall | None = None  # with input hosts, the call that defined the outputs
        self.num_threads = DEFAULT_THREADS if num_threads < 0 else num_threads
        self._read_ahead_costs = (ReadCost.STORE,) if read_threads < 0 else (ReadCost.STORE, ReadCost.FILE)
        self.read_threads = min(max(64, 32 * self.num_threads), 512) if read_threads < 0 else read_threads
        self.device_id = local_device(device_id)
        self.seed_is_given = seed is not None and seed >= 0
        self.seed = secrets.randbits(63) if seed is None or seed < 0 else int(seed)
        # `SerialExecutor` computes in the caller's thread, so it cannot prepare batches ahead.
        self.prefetch_queue_depth = host_queue_depth(prefetch_queue_depth) if exec_pipelined and exec_async else 0
        self.exec_async = exec_async
        self.placement: PlacementHint = placement
        self.debug = debug
        # DALI's own programs pass None where no source is parallel.
        self.py_num_workers = 1 if py_num_workers is None else py_num_workers
        self.py_start_method = py_start_method or "spawn"
        trace = Trace(
            "pipeline" if type(self) is Pipeline else type(self).__name__,
            rows=batch_size,
            batch=batch_size,
            worker_options=WorkerOptions(self.py_num_workers, py_callback_pickler),
            checkpoints=bool(hints.get("enable_checkpointing")),
        )
        requirements = OutputRequirements(output_dtype, output_ndim, output_layout)
        self._definition = Definition(trace, requirements, weakref.WeakMethod(self.iter_setup))
        # A stack, because a `with` statement may contain another one of the same pipeline.
        self._contexts: list[ExitStack] = []
        self._debugger: DebugExecutor | None = None
        self._session: PipelineSession | None = None

    def __enter__(self) -> Self:
        if self.debug:
            raise ContextError(
                "in debug mode a definition runs for each batch",
                fix="@pipeline_def(debug=True)",
                where=user_call_site(),
            )
        if self.max_batch_size < 1:  # deserialize_and_build may still set it
            raise no_batch_size(None)
        trace, context = self._definition.trace, ExitStack()
        for manager in (trace.active(), trace.journal.watching_generators(self.name), self._as_current()):
            context.enter_context(manager)
        self._contexts.append(context)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # The contexts see the error: tracing explains mistakes with nodes.
        self._contexts.pop().__exit__(kind, error, at)

    @property
    def name(self) -> str:
        """Name of the definition in messages."""
        return self._definition.trace.name

    @name.setter
    def name(self, name: str) -> None:
        self._definition.trace.name = name

    @property
    def order_seed(self) -> int:
        """Seed of the readers' orders: the seed of the pipeline, or 0 if there is none.

        As in DALI, it is fixed: several programs may read one shard each, and parts of different permutations overlap.
        """
        return self.seed if self.seed_is_given else 0

    def set_block(self, rows: int, batch: int, shared: dict[Any, Any] | None = None) -> None:
        """Describe the block of rows that the pipeline computes, before the definition is traced.

        Args:
            rows: Rows that one device computes.
            batch: Rows of a batch.
            shared: Data that the traces of one definition for several blocks have in common.
        """
        trace = self._definition.trace
        trace.rows, trace.batch = rows, batch
        trace.shared = trace.shared if shared is None else shared

    def _feed(self, name: str | None, data: Any, layout: str | None = None) -> None:
        if self.debug:
            return self._debug_executor().feed(name, data, layout)
        if name not in self._definition.trace.fed:  # its queue may exist only after the definition was traced
            self._trace_early()
        return self._definition.feed(name, data, layout)

    def iter_setup(self) -> None:
        """Feed the next batch. Called when a queue is empty; a subclass may override it and may raise StopIteration."""

    @with_call_site
    def set_outputs(self, *outputs: Any) -> None:
        """Set the outputs of a batch: nodes, or values that become constants."""
        if self.max_batch_size < 1:
            raise no_batch_size(None)
        self._definition.set_outputs(outputs)

    @with_call_site
    def define_graph(self) -> Any:
        """Return the outputs of a batch. A derived class overrides it; it is called once, to trace the definition.

        Returns:
            A node, or a tuple or list of nodes.

        Raises:
            ContextError: Nothing was defined.

        Example:
            >>> from penstock import Pipeline, ops
            >>> class Doubling(Pipeline):
            ...     def __init__(self, batch_size, num_threads):
            ...         super().__init__(batch_size, num_threads)
            ...         self.input = ops.readers.Arrays(random_shuffle=False)
            ...     def define_graph(self):
            ...         return self.input([10, 20, 30], name="reader") * 2
            >>> Doubling(2, 1).run()[0].as_array().tolist()
            [20, 40]
        """
        raise ContextError(
            "the pipeline has no outputs",
            fix="call set_outputs in its `with` statement, or derive a class with define_graph",
        )

    @check_annotations
    def define(self, definition: Callable[[], Any]) -> None:
        """Run a definition and make what it returns the outputs.

        Raises:
            PenstockError: The definition raises it.
        """
        with self:
            self._definition.record(definition)

    def define_early(self, definition: Callable[[], Any]) -> None:
        """Call `define`. If a source is not ready, the definition runs again when a batch is needed, as in DALI."""
        try:
            self.define(definition)
        except PenstockError:
            if not self._definition.interrupted:
                raise
            if definition != self.define_graph:
                vars(self)["define_graph"] = definition  # an attribute hides the method

    @property
    def graph(self) -> Graph:
        """The graph of the definition.

        Raises:
            ContextError: There are no outputs yet.
        """
        self._recorded()
        self._definition.settle()
        return self._recorded()

    def _recorded(self) -> Graph:
        if self._definition.graph is None:
            if self.debug:
                raise ContextError("in debug mode a definition is unknown until it runs", fix="call run() first")
            self._definition.run_with_feeds(lambda: self.define(self.define_graph))
        assert self._definition.graph is not None  # define has set it
        return self._definition.graph

    @check_annotations
    def build(self, define_graph: Callable[[], Any] | None = None) -> None:
        """Plan the definition and prepare the first batches. `run` does so if you do not.

        Args:
            define_graph: Returns the outputs of a batch; needed if neither `set_outputs` nor a method does.

        Raises:
            ContextError: The pipeline has outputs already.
            PenstockError: The definition or its first sample is invalid.

        Example:
            >>> from penstock import fn
            >>> pipeline = Pipeline(batch_size=2)
            >>> pipeline.build(lambda: fn.readers.arrays([10, 20, 30]))
            >>> pipeline.run()[0].as_array().tolist()
            [10, 20]
        """
        if define_graph is not None:
            if self._definition.graph is not None:
                raise ContextError("the pipeline has outputs already", fix="build() without define_graph")
            self.define_early(define_graph)
        if self.debug:
            return
        self._trace_early()
        if self._definition.is_ready:  # otherwise a batch must be fed first, after `build`, as in DALI
            self._start()

    def _trace_early(self) -> None:
        # An interrupted definition runs again when a batch is needed, not here, where its source may still be empty.
        if self._definition.graph is None and not self._definition.interrupted:
            self.define_early(self.define_graph)

    def _start(self) -> PipelineSession:
        if self.debug:
            raise ContextError("in debug mode there is no plan: operators run as they are called", fix="debug=False")
        graph = self.graph
        # A session is bound to the plan of one graph, and a later fed batch or `set_outputs` makes another graph.
        if self._session is None or self._session.graph is not graph:
            # A later session would deliver the batches after the checkpoint again.
            state = None if self._session and self._session.has_begun else self.restored_state
            self._session = PipelineSession.start(self, graph, state)
        return self._session

    def pool(self, num_threads: int | None = None) -> ChunkExecutor:
        """Return a new executor for host work on this machine; with `num_threads` threads, if given."""
        if self.num_processes and num_threads is None:
            from penstock.engine.host.process_executor import ProcessExecutor  # noqa: PLC0415  # for worker processes alone

            return ProcessExecutor(self.num_processes, self.read_threads, self._read_ahead_costs)
        if not self.exec_async:
            return SerialExecutor()
        return ThreadExecutor(num_threads or self.num_threads, self.read_threads, self._read_ahead_costs)

    @with_call_site
    def run(self, cuda_stream: Any = None, /, **feeds: Any) -> tuple[TensorList, ...]:
        """Return the next batch, one entry per output. Readers continue from epoch to epoch without end.

        Args:
            cuda_stream: Ignored; an option of DALI.
            **feeds: Batches for external sources without a source, by name.

        Raises:
            SampleError: A sample of the batch is bad.
            StopIteration: An external source has ended; `reset` begins its next epoch.
        """
        del cuda_stream
        for name, data in feeds.items():
            self._feed(name, data)
        return self._next_batch()

    @with_call_site
    def _next_batch(self) -> tuple[TensorList, ...]:
        if not self.debug:
            return self._start().outputs()
        self._definition.graph, outputs = self._debug_executor().run(self.define_graph)
        self._definition.requirements.check(self._definition.graph)
        return outputs

    def _debug_executor(self) -> DebugExecutor:
        if self._debugger is None:
            self._debugger = DebugExecutor(self.name, self.max_batch_size, self.seed, self.order_seed, self.placement)
        return self._debugger

    def reset(self) -> None:
        """Begin the next epoch if an external source has ended this one. As in DALI, readers ignore it."""
        if self._debugger is not None:
            self._debugger.reset()
        if self._session is not None or (self.restored_state is not None and self._definition.is_ready):
            self._start().reset()

    def __reduce__(self) -> Any:
        """Refuse to be pickled or copied: a pipeline holds threads and arrays."""
        graph = self._definition.graph
        raise ArgumentTypeError(
            f"the pipeline {self.name} cannot be pickled or copied",
            fix="make it in the other process, with the function that defines it; get_state() and set_state() of an "
            "iterator transfer its position",
            where=user_call_site() if graph is None else graph.outputs[0].node.where,
        )

    def close(self) -> None:
        """Stop the threads. The pipeline may be run again."""
        if self._session is not None:
            self._session.cursor.close()

    def __del__(self) -> None:
        """Release the run without waiting for it. Programs written for DALI also call it directly."""
        self._session = None

    _repr_html_ = pipeline_html

    def explain(self) -> str:
        """Return a text that says where each node runs, and why."""
        session = self._start()
        return session.executable.explain(self.max_batch_size, session.cursor.run.workers)
