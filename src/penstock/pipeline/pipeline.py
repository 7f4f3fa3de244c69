"""`Pipeline`: a definition with the parameters of its execution."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, Unpack

from penstock.core.call_site import user_call_site, with_call_site
from penstock.engine.host.worker_threads import SerialExecutor, ThreadExecutor
from penstock.errors import ArgumentTypeError, ContextError, UsageError
from penstock.graph.arguments.argument_checks import check_annotations
from penstock.graph.arguments.argument_marks import Range
from penstock.graph.ir.operator import Reader
from penstock.graph.tracing.eager_execution import WorkerOptions
from penstock.graph.tracing.trace import Trace
from penstock.pipeline.definition import Definition
from penstock.pipeline.pipeline_options import OutputRequirements, PipelineHints, check_hints
from penstock.pipeline.session import PipelineSession
from penstock.pipeline.tensor_list import TensorList
from penstock.plan.placement import PlacementHint
from penstock.sources.storage.byte_range import ReadCost
from penstock.types import CPU_ONLY_DEVICE_ID

DEFAULT_THREADS = 4

MAX_BATCH = 2**26
"""More rows than this are a mistake: numbers of rows alone would take gigabytes."""


class Pipeline(Definition):
    """A definition with the parameters of its execution.

    Make one by calling a function decorated with `pipeline_def`; or fill one in a `with` statement and name its outputs
    with `set_outputs`; or derive a class whose `define_graph` returns them. `run` gives its batches one by one;
    `penstock.DataIterator` iterates over epochs.

    Args:
        batch_size: how many samples a batch has.
        num_threads: how many threads work on the host; -1 takes 4.
        device_id: the number of the local device that its arrays lie on; None, 0 and DALI's CPU_ONLY_DEVICE_ID: the
            default device, from where JAX moves them as it needs. Where a process has one device, any number means it.
        seed: what all random numbers and shuffles derive from; None or a negative one draws that of random numbers, and
            shuffles as seed 0 does, so that shards in pipelines of their own are disjoint.
        exec_pipelined: whether batches are prepared ahead.
        prefetch_queue_depth: how many are prepared ahead; a dict, as DALI takes, counts with its "cpu_size".
        exec_async: whether host work runs on threads; False runs it in the caller, the plain way.
        placement: "host" or "device" puts all that can be there on the host or in the device program; "auto" chooses.
        checkpoint: not for pipelines: iterators are resumed with their `restore`.
        output_dtype: the dtype that the outputs must have, one or one per output; None checks nothing.
        output_ndim: the number of axes that a sample of each output must have; likewise.
        output_layout: the layout that a sample of each output must have; likewise.
        py_num_workers: how many processes call the sources of `fn.external_source(parallel=True)`; 0: this one does.
        py_start_method: how DALI starts them. Here they are always new processes, since JAX has threads, which a fork
            does not survive.
        read_threads: how many threads read ahead what the next batches need from object stores, and from folders of
            files, too, if it is given: for network file systems and slow disks. As many objects are asked for at once.
            0 reads nothing ahead; -1 takes 32 for each of `num_threads`, from 64 to 512, for object stores.
        py_callback_pickler: a module or object with `dumps` and `loads` that sends sources there, or a tuple of it and
            dictionaries of their keyword arguments; None: pickle, or cloudpickle where pickle cannot.
        debug: whether the definition runs for each batch; see `pipeline_def`, which it needs, or `define_graph`.
        **hints: options of DALI's that do nothing here.

    Raises:
        UsageError: a batch size or number of threads that is out of range.

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
        checkpoint: None = None,
        output_dtype: Any = None,
        output_ndim: int | Sequence[int | None] | None = None,
        output_layout: str | Sequence[str | None] | None = None,
        debug: bool = False,
        py_num_workers: Annotated[int, Range(0, 4096)] = 1,
        py_start_method: Literal["fork", "forkserver", "spawn"] = "spawn",
        py_callback_pickler: Any = None,
        read_threads: Annotated[int, Range(-1, 4096)] = -1,
        **hints: Unpack[PipelineHints],
    ) -> None:
        if hints:
            check_hints(hints, option_names())
        self._hints = hints
        if batch_size < 1 and (batch_size != -1 or debug):
            raise _no_batch_size(batch_size)
        if num_threads == 0:
            raise UsageError(
                "num_threads must be at least 1", given=num_threads, fix="exec_async=False uses no threads"
            )
        if device_id == CPU_ONLY_DEVICE_ID:
            device_id = None
        if device_id is not None and device_id < 0:
            raise UsageError("Pipeline: device_id is out of range", given=device_id, expected="at least 0, or None")
        if checkpoint is not None:
            raise UsageError("a Pipeline takes no checkpoint", fix="restore the iterator: iterator.set_state(state)")
        self.max_batch_size = batch_size
        self.num_threads = DEFAULT_THREADS if num_threads < 0 else num_threads
        self._fetched = (ReadCost.STORE,) if read_threads < 0 else (ReadCost.STORE, ReadCost.FILE)
        self.read_threads = min(max(64, 32 * self.num_threads), 512) if read_threads < 0 else read_threads
        self.device_id = device_id
        self.seed_is_given = seed is not None and seed >= 0
        self.seed = secrets.randbits(63) if seed is None or seed < 0 else int(seed)
        depth = (
            prefetch_queue_depth if isinstance(prefetch_queue_depth, int) else prefetch_queue_depth.get("cpu_size", 2)
        )
        self.prefetch_queue_depth = depth if exec_pipelined and exec_async else 0
        self.exec_async = exec_async
        self.placement: PlacementHint = placement
        self.py_num_workers, self.py_start_method = py_num_workers, py_start_method
        self._running: PipelineSession | None = None
        trace = Trace(
            "pipeline" if type(self) is Pipeline else type(self).__name__,
            rows=batch_size,
            batch=batch_size,
            worker_options=WorkerOptions(py_num_workers, py_callback_pickler),
            checkpoints=bool(hints.get("enable_checkpointing")),
        )
        super().__init__(trace, OutputRequirements(output_dtype, output_ndim, output_layout), debug=debug)

    def __enter__(self) -> Self:
        if self.max_batch_size < 1:  # which deserialize_and_build would have told
            raise _no_batch_size(None)
        return super().__enter__()

    def set_outputs(self, *outputs: Any) -> None:
        """Say what a batch consists of: nodes, or values that become constants."""
        if self.max_batch_size < 1:
            raise _no_batch_size(None)
        super().set_outputs(*outputs)

    @check_annotations
    def build(self, define_graph: Callable[[], Any] | None = None) -> None:
        """Plan the definition and make it ready to run. `run` does so by itself.

        Args:
            define_graph: returns what a batch consists of, where neither `set_outputs` nor a method has said it.

        Raises:
            ContextError: the outputs are known already.
            PenstockError: the definition or its first sample is not right.

        Example:
            >>> from penstock import fn
            >>> pipeline = Pipeline(batch_size=2)
            >>> pipeline.build(lambda: fn.readers.arrays([10, 20, 30]))
            >>> pipeline.run()[0].as_array().tolist()
            [10, 20]
        """
        if define_graph is not None:
            if self._graph is not None:
                raise ContextError("the pipeline has outputs already", fix="build() without define_graph")
            self.define_early(define_graph)
        if self.debug:
            return
        if self._graph is None and not self._postponed:
            self.define_early(self.define_graph)
        if self._graph is not None and all(stream.has_batch for stream in self._guessed(self._graph)):
            self._start()

    def _start(self) -> PipelineSession:
        if self.debug:
            raise ContextError("in debug mode there is no plan: operators run as they are called", fix="debug=False")
        graph, depth = self.graph, self.prefetch_queue_depth
        if depth and graph.feeds:  # DALI counts the batch that is asked for, too: a source may give what was just set
            depth -= 1
        if self._running is None or self._running.graph is not graph:
            self._running = PipelineSession.start(
                graph,
                self.placement,
                self.device_id,
                self.seed,
                self.order_seed,
                self.max_batch_size,
                self.pool(),
                depth,
            )
        return self._running

    def pool(self) -> ThreadExecutor | SerialExecutor:
        """Where its host work runs."""
        return (
            ThreadExecutor(self.num_threads, self.read_threads, self._fetched) if self.exec_async else SerialExecutor()
        )

    @with_call_site
    def run(self, cuda_stream: Any = None, /, **feeds: Any) -> tuple[TensorList, ...]:
        """The next batch, an output each. Readers go on from epoch to epoch without end.

        Args:
            cuda_stream: a hint of DALI's.
            **feeds: batches for external sources without a source, by name.

        Raises:
            SampleError: a sample of the batch is bad.
            StopIteration: an external source has ended; `reset` begins its next epoch.
        """
        del cuda_stream
        for name, data in feeds.items():
            self._feed(name, data)
        return self._next_batch()

    @with_call_site
    def _next_batch(self) -> tuple[TensorList, ...]:
        if not self.debug:
            return self._start().outputs()
        self._graph, outputs = self._debugged().run(self.define_graph)
        self._wanted.check(self._graph)
        return outputs

    def outputs(self, cuda_stream: Any = None) -> tuple[TensorList, ...]:
        """The next batch; the same as `run`. `cuda_stream` is a hint of DALI's."""
        del cuda_stream
        return self._next_batch()

    def reset(self) -> None:
        """Begin the next epoch, where an external source has ended this one. Readers go on without end, as in DALI."""
        if self._debugging is not None:
            self._debugging.reset()
        if self._running is not None:
            self._running.reset()

    def __reduce__(self) -> Any:
        """Say how to have a pipeline in another process: it holds threads and arrays, which cannot be copied."""
        raise ArgumentTypeError(
            f"the pipeline {self.name} is neither pickled nor copied",
            fix="make it in the other process, by the function that defines it; get_state() and set_state() of an "
            "iterator carry its place over",
            where=user_call_site() if self._graph is None else self._graph.outputs[0].node.where,
        )

    def close(self) -> None:
        """End the threads. The pipeline may be run again."""
        if self._running is not None:
            self._running.run.close()

    def __del__(self) -> None:
        """Let go of what runs, without waiting for it. Programs written for DALI call it, too."""
        self._running = None

    @check_annotations
    def reader_meta(self, name: str | None = None) -> dict[str, Any]:
        """What is known of a reader, or of all readers.

        Returns:
            epoch_size, epoch_size_padded, number_of_shards, shard_id, pad_last_batch and stick_to_shard; without `name`
            a dict of such, by name, where readers without a name are numbered.

        Raises:
            UnknownReaderError: no reader has that name.
        """
        readers = {
            node.name or f"__{node.kind.rpartition('.')[2].capitalize()}_{number}": node.operator
            for number, node in enumerate(self.graph.readers)
        }
        metas = {called: reader.meta for called, reader in readers.items() if isinstance(reader, Reader)}
        if name is None:
            return metas
        return metas[name] if name in metas else metas[self.graph.reader(name).name]

    @check_annotations
    def epoch_size(self, name: str | None = None) -> Any:
        """How many samples an epoch of a reader has; without `name` a dict of such, by name."""
        if name is None:
            return {name: meta["epoch_size_padded"] for name, meta in self.reader_meta().items()}
        return self.reader_meta(name)["epoch_size_padded"]

    def executor_statistics(self) -> dict[str, Any]:
        """What the stages have done so far: calls, samples and seconds, by stage. Not what DALI has there."""
        return {} if self._running is None else dict(self._running.run.meter.snapshot())

    def explain(self) -> str:
        """What runs where, and why, as text."""
        return self._start().planned.explain(self.max_batch_size)


def option_names() -> frozenset[str]:
    """The names of all arguments of a `Pipeline`, hints included."""
    return frozenset({*PipelineHints.__annotations__, *inspect.signature(Pipeline).parameters} - {"hints"})


def _no_batch_size(given: int | None) -> UsageError:
    return UsageError(
        "a pipeline needs a batch size", given=given, fix="batch_size=... with at least 1", where=user_call_site()
    )
