"""external_source: data from callables, iterables and generators, or fed by the program."""

import functools
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, cast

import numpy as np

from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph import (
    DataLocation,
    PerformanceHint,
    Range,
    StreamInput,
    apply_many,
    common_arguments,
    current_trace,
    operator,
)
from penstock.graph.tracing.free_nodes import OUTSIDE, made_again, made_outside
from penstock.operators.argument_limits import Rank
from penstock.operators.user_code.function_identity import FunctionIdentity
from penstock.operators.user_code.outputs import per_output
from penstock.sources.external.array_conversion import SampleKind
from penstock.sources.external.external_stream import ExternalStream, FunctionStream, InProcessStream
from penstock.sources.external.feed_queue import FeedQueue
from penstock.sources.external.iterable_stream import Cycle, IterableStream, SequenceStream
from penstock.sources.external.library_samples import is_table
from penstock.sources.external.processes.process_stream import ParallelStream
from penstock.sources.external.processes.task_pickling import pickled
from penstock.sources.external.processes.worker_processes import WorkerPool
from penstock.sources.formats.map_style_source import by_position
from penstock.types import as_dtype

_KIND = "external_source"
_log = logging.getLogger("penstock")

# DALI's spellings of `cycle`, as its documentation lists them.
_CYCLES: dict[Any, Cycle] = {None: "no", False: "no", "no": "no", True: "quiet", "quiet": "quiet", "raise": "raise"}

# Objects that have items or can be called but are not sources of samples, and what to pass instead.
_NOT_SOURCES: Sequence[tuple[Any, str]] = (
    (type, "an instance of the class"),
    (str | bytes | bytearray | memoryview, "a list of arrays, such as [np.frombuffer(data, np.uint8)]"),
    (Mapping, "fn.readers.items, which reads a dictionary of columns"),
)


@operator(_KIND)
def external_source(
    source: DataLocation[Any] = None,
    num_outputs: Annotated[int | None, Range(1, 1000)] = None,
    *,
    cycle: Literal["no", "quiet", "raise"] | bool | None = None,
    layout: str | Sequence[str | None] | None = None,
    dtype: Any = None,
    ndim: Rank | Sequence[Rank | None] | None = None,
    batch: bool | None = None,
    batch_info: bool = False,
    repeat_last: bool = False,
    parallel: PerformanceHint[bool] = False,
    prefetch_queue_depth: PerformanceHint[Annotated[int, Range(1, 1000)]] = 1,
    no_copy: PerformanceHint[bool] = False,
    cuda_stream: PerformanceHint[Any] = None,
    use_copy_kernel: PerformanceHint[bool] = False,
    blocking: PerformanceHint[bool] = False,
) -> Any:
    """Read batches or samples from a function, an iterable or a generator, or from what you feed by hand.

    The thread that requests batches calls the source when it starts a batch, which is some batches before you receive
    it. Unless you give `dtype` and `ndim`, both are taken from the first sample; shapes may differ between samples.
    If the source is not ready when the definition is traced (it fails, or has no data yet), tracing waits for
    the first batch.

    Args:
        source: A function without arguments; a function of one argument, the index of the batch in the epoch (with
            `batch_info` a `types.BatchInfo`; with ``batch=False`` a `types.SampleInfo`); an iterable; or a generator
            function. StopIteration, or the end of the iterable, ends an epoch. None: `Pipeline.feed_input` provides
            the batches.
        num_outputs: Number of outputs; the source then returns a tuple or list with an entry per output. None: one
            output, returned without a tuple.
        cycle: End of an iterable or generator function: None, False or "no" ends the data for good; True or "quiet"
            restarts at once; "raise" ends the epoch and restarts with the next.
        layout: Layout of a sample, such as "HWC"; with several outputs one for all, or a list with one per output.
        dtype: Element type; one for all outputs or a list.
        ndim: Number of axes of a sample; one for all outputs or a list.
        batch: If True or None, the source returns batches: arrays with a leading axis of samples, or lists of samples.
            A batch may have fewer samples than `batch_size`. If False, it returns samples.
        batch_info: If True, a function of one argument that returns batches receives a `types.BatchInfo`.
        repeat_last: If True, a run without new data repeats the batch that was fed last.
        parallel: If True, the `py_num_workers` processes of the pipeline call the source, which is pickled for them. A
            function must take an argument; an iterable must return batches, and runs in one process.
        prefetch_queue_depth: Number of batches that the processes prepare ahead with `parallel`.
        no_copy: If True, arrays of the source are not copied; they must not change until their batch is complete.
        cuda_stream: DALI's hint; it has no effect.
        use_copy_kernel: DALI's hint; it has no effect.
        blocking: DALI's hint; it has no effect.

    Returns:
        A node, or a list of nodes with `num_outputs`. dtype and rank are those of the samples.

    Raises:
        ArgumentTypeError: `source` is not a source, or is a function of several arguments.
        DefinitionError: Arguments exclude each other.
        SourceError: The source fails, returns no data, or returns data that is not an array of numbers.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> def squares(info):
        ...     return np.array([info.idx_in_epoch**2], np.int32)
        >>> pipeline = penstock.Pipeline(batch_size=3)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.external_source(squares, batch=False))
        >>> [pipeline.run()[0].as_array().ravel().tolist() for _ in range(2)]
        [[0, 1, 4], [9, 16, 25]]
    """
    del blocking, cuda_stream, use_copy_kernel
    by_batch = batch is None or batch
    trace = current_trace()
    common = common_arguments()
    name = common.get("name") or ""
    kinds = _sample_kinds(num_outputs, layout, dtype, ndim)
    input_name = name or (f"input {trace.num_nodes % OUTSIDE}" if source is None else _name_of(source))
    # A definition may be traced several times, for shards and repetitions: functions made by the same lines then share
    # one stream. In debug mode it runs for each batch, where the source of the first run must continue, even if a
    # closure changed.
    code = None if trace.eager is not None else FunctionIdentity(cast(Any, source))
    key = (_KIND, code, num_outputs, cycle, kinds, by_batch, batch_info, trace.num_nodes)
    if key not in trace.shared:
        if source is None:
            _check_fed(num_outputs, cycle, batch_info)
            trace.shared[key] = FeedQueue(kinds, name=input_name, repeat_last=repeat_last)
        else:
            if repeat_last:
                raise DefinitionError("repeat_last is for fed data and cannot be combined with a source")
            several = num_outputs is not None
            options = {"kinds": kinds, "several": several, "batch": by_batch, "name": input_name, "lends": not no_copy}
            stream = _make_stream(source, cycle, options, batch_info)
            trace.shared[key] = _in_processes(stream, prefetch_queue_depth) if parallel else stream
    shared: ExternalStream = trace.shared[key]
    if isinstance(shared, FeedQueue):
        trace.fed[input_name] = shared
        if trace.eager is not None:
            trace.eager.fill(input_name, shared)
        trace.journal.register_assumed(shared)
    shared.infer_specs()
    if shared.seek_obstacle is not None:
        message = (
            f"{input_name} only moves forward ({shared.seek_obstacle}). Its iterator cannot seek, so "
            "a restored state is valid only if the source is at the same position. Each process of a job calls its own"
        )
        _log.log(logging.WARNING if trace.checkpoints else logging.INFO, message)
    nodes = apply_many(StreamInput(shared))
    # A node made outside of a definition may be used in one that is traced before anything is fed. That definition
    # then repeats this call with other guesses of dtype and rank.
    if isinstance(shared, FeedQueue) and shared.is_assumed and trace.nodes is made_outside:
        call = {"layout": layout, "dtype": dtype, "ndim": ndim, "repeat_last": repeat_last}
        call |= {**common, "name": input_name}
        made_again[nodes[0].value.node] = lambda: external_source(None, num_outputs=None, **cast(Any, call)).value
    return nodes[0] if num_outputs is None else nodes


def _make_stream(source: Any, cycle: Any, options: dict[str, Any], batch_info: bool) -> InProcessStream:
    """Return the stream of a source.

    Args:
        source: Function, iterable or generator function.
        cycle: The user's choice at the end of an iterable.
        options: Arguments that all streams take.
        batch_info: True if a function receives a `types.BatchInfo`.

    Raises:
        ArgumentTypeError: The source is of another kind, or a generator cannot restart.
        DefinitionError: Arguments exclude each other.
    """
    generates, iterates = _is_generator_function(source), isinstance(source, Iterator)
    indexed = hasattr(source, "__getitem__") and hasattr(source, "__len__")
    fix = next((fix for kind, fix in _NOT_SOURCES if isinstance(source, kind)), None)
    if is_table(source):  # an index would select a column
        fix = "fn.readers.items, which reads the rows of a table"
    if fix or not (generates or indexed or hasattr(source, "__iter__") or callable(source)):
        raise ArgumentTypeError(
            "source must be a function, an iterable of batches or samples, or a generator function",
            given=f"{short_repr(source)} of type {type(source).__name__}",
            fix=fix,
        )
    if generates or indexed or hasattr(source, "__iter__"):
        if _CYCLES[cycle] != "no" and inspect.isgenerator(source):
            raise ArgumentTypeError(
                "a generator cannot restart after its end",
                given=f"cycle={short_repr(cycle)}",
                fix="pass the generator function, without calling it",
            )
        if batch_info:
            raise DefinitionError("batch_info is for functions; iterables take no arguments")
        # A sequence can be read at any position, so its iterators can seek, unlike those of other iterables.
        if indexed and not iterates:
            # Other classes, including derived ones, may fill one array again for each item.
            if type(source) in (list, tuple, np.ndarray):
                options["lends"] = False
            return SequenceStream(by_position(source), _CYCLES[cycle], **options)
        return IterableStream(source, _CYCLES[cycle], generates=generates, **options)
    if cycle is not None:
        raise DefinitionError(
            "cycle is only for iterables and generator functions",
            given=f"cycle={short_repr(cycle)} for the function {_name_of(source)}",
            fix="let the function raise StopIteration at the end of each epoch",
        )
    return FunctionStream(source, informed=_takes_one_argument(source), batch_info=batch_info, **options)


def _in_processes(stream: InProcessStream, ahead: int) -> ExternalStream:
    """Return a stream that calls the same source in the worker processes of the pipeline, if it has any.

    Raises:
        ArgumentTypeError: The source cannot be divided between processes, or cannot be pickled.
    """
    trace = current_trace()
    # Only a function of an index can compute any batch in any process. An iterator has a position, so one process owns
    # it. DALI has the same rules.
    is_iterable = isinstance(stream, IterableStream | SequenceStream)
    if is_iterable and not stream.batched:
        raise ArgumentTypeError(
            "with parallel=True an iterable or generator function must return batches",
            given=f"samples of {stream.name}",
            fix="batch=True; or a function of a types.SampleInfo, which all workers can call",
        )
    if not is_iterable and stream.seek_obstacle is not None:
        raise ArgumentTypeError(
            "with parallel=True a function needs an argument, so that any worker can compute any batch",
            given=f"{stream.name}()",
            fix="a function of the batch index; with batch=False of a types.SampleInfo",
        )
    if not trace.worker_options.workers:
        return stream
    payload = pickled(stream, f"{stream.name}", trace.worker_options.pickler)
    workers = trace.shared.setdefault((_KIND, "workers"), WorkerPool(trace.worker_options.workers))
    return ParallelStream(stream, payload, workers, ahead=ahead, alone=is_iterable)


def _is_generator_function(source: Any) -> bool:
    """Return True if a call of the source makes a generator. Callable objects count, too."""
    source = _without_partials(source)
    call = getattr(cast(Any, type(source)), "__call__", None)  # noqa: B004  # the method itself is looked at
    return inspect.isgeneratorfunction(source) or inspect.isgeneratorfunction(call)


def _takes_one_argument(function: Callable[..., Any]) -> bool:
    """Return True if a function takes one argument, and False if it takes none.

    Raises:
        ArgumentTypeError: It takes others.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return True  # compiled functions may not have a signature
    # A source is called without keywords. `functools.partial(load, size=3)` has a keyword-only `size` with a default.
    parameters = [p for p in parameters if p.kind is not p.KEYWORD_ONLY or p.default is p.empty]
    plain = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    if not plain or len(parameters) > 1:
        raise ArgumentTypeError(
            "a source takes no argument, or one: the index of the batch, a BatchInfo or a SampleInfo",
            given=f"{_name_of(function)}{inspect.signature(function)}",
            fix="functools.partial or a lambda for other arguments",
        )
    return bool(parameters)


def _name_of(source: Any) -> str:
    inner = _without_partials(source)
    return str(getattr(inner, "__qualname__", type(inner).__name__)).rpartition("<locals>.")[2]


def _without_partials(source: Any) -> Any:
    """Return the function inside of partial applications."""
    while isinstance(source, functools.partial):
        source = cast(Any, source).func
    return source


def _check_fed(num_outputs: int | None, cycle: Any, batch_info: bool) -> None:
    for name, value in (("num_outputs", num_outputs), ("cycle", cycle), ("batch_info", batch_info)):
        if value:
            raise DefinitionError(
                f"{name} needs a source",
                given=f"{name}={short_repr(value)}",
                fix="an external_source per output, if you feed them by hand" if name == "num_outputs" else None,
            )


def _sample_kinds(num_outputs: int | None, layout: Any, dtype: Any, ndim: Any) -> tuple[SampleKind, ...]:
    count = num_outputs or 1
    layouts = [item or "" for item in per_output("layout", layout, count, partial=True)]
    dtypes = [None if item is None else as_dtype(item) for item in per_output("dtype", dtype, count, partial=True)]
    ranks = per_output("ndim", ndim, count, partial=True)
    return tuple(map(SampleKind, dtypes, ranks, layouts))
