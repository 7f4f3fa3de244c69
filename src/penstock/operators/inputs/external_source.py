"""external_source: what the user's own functions, iterables and generators give, or feed."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypedDict, cast

from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph.arguments.argument_marks import DataLocation, PerformanceHint, Range
from penstock.graph.ir.operator import StreamInput
from penstock.graph.tracing.apply import apply_many
from penstock.graph.tracing.free_nodes import OUTSIDE, made_again, made_outside
from penstock.graph.tracing.registry import common_arguments, operator
from penstock.graph.tracing.trace import current_trace
from penstock.operators.argument_limits import Rank
from penstock.operators.user_code.function_identity import FunctionIdentity
from penstock.sources.external.array_conversion import SampleKind
from penstock.sources.external.external_stream import (
    Cycle,
    ExternalStream,
    FunctionStream,
    InProcessStream,
    IterableStream,
    SequenceStream,
)
from penstock.sources.external.feed_queue import FeedQueue
from penstock.sources.external.processes.process_stream import ParallelStream
from penstock.sources.external.processes.source_pickling import pickled
from penstock.sources.external.processes.worker_processes import WorkerPool
from penstock.types import as_dtype

_KIND = "external_source"
_log = logging.getLogger("penstock")
_OUTPUTS = 1000
"""At most so many outputs: more are a mistake."""

_CYCLES: dict[Any, Cycle] = {None: "no", False: "no", "no": "no", True: "quiet", "quiet": "quiet", "raise": "raise"}

_NO_SOURCES: Sequence[tuple[Any, str]] = (
    (type, "an object of the class"),
    (str | bytes | bytearray | memoryview, "a list of arrays, such as [np.frombuffer(data, np.uint8)]"),
    (Mapping, "fn.readers.items, which reads a dictionary of columns"),
)
"""What has items or can be called, and gives no samples; and what to give instead."""


class _How(TypedDict):
    """What all streams take."""

    kinds: Sequence[SampleKind]
    several: bool
    batch: bool
    name: str
    lends: bool


@operator(_KIND)
def external_source(
    source: DataLocation[Any] = None,
    num_outputs: Any = None,
    *,
    cycle: bool | str | None = None,
    layout: str | Sequence[str | None] | None = None,
    dtype: Any = None,
    ndim: Rank | Sequence[Rank | None] | None = None,
    batch: bool | None = None,
    batch_info: bool = False,
    repeat_last: bool = False,
    parallel: bool = False,
    prefetch_queue_depth: PerformanceHint[Annotated[int, Range(1, 1000)]] = 1,
    no_copy: PerformanceHint[bool] = False,
    cuda_stream: PerformanceHint[Any] = None,
    use_copy_kernel: PerformanceHint[bool] = False,
    blocking: PerformanceHint[bool] = False,
) -> Any:
    """Take batches, or samples, from the program itself: from a function, an iterable, a generator, or fed by hand.

    The source is called by the thread that asks for batches, when a batch is begun: some batches before it is taken.
    What the samples are is taken from the first one, unless `dtype` and `ndim` say it; samples may differ in shape.
    Where it is not ready when the definition is traced, fails or has nothing yet, both wait for the first batch.

    Args:
        source: a function of no argument; a function of one, which is the number of the batch in the epoch (with
            `batch_info` a `types.BatchInfo`; without `batch` a `types.SampleInfo`); an iterable; a generator function.
            At the end of an epoch it raises StopIteration, or ends. None: `Pipeline.feed_input` gives the batches.
        num_outputs: how many outputs it has; it then gives a tuple or list with an entry for each. None: one output,
            as it is.
        cycle: for iterables and generator functions, what happens at their end: None, False or "no": they have ended
            for good; True or "quiet": they begin again at once; "raise": the epoch ends, and they begin again with the
            next.
        layout: the layout of a sample, such as "HWC"; for several outputs one, or one for each.
        dtype: the element type; likewise.
        ndim: the number of axes of a sample; likewise.
        batch: whether the source gives batches, arrays with a leading axis of samples or lists of samples; else it
            gives samples. A batch may have fewer samples than `batch_size`. None means True.
        batch_info: whether a function of one argument that gives batches gets a `types.BatchInfo`.
        repeat_last: whether, where nothing was fed, the batch that was fed last is given again.
        parallel: whether the `py_num_workers` processes of the pipeline call the source, and not this one. They get it
            by pickle. A function then takes an argument; an iterable gives batches, and one process has it.
        prefetch_queue_depth: with `parallel`, how many batches those processes work ahead.
        no_copy: whether what the source gives stays as it is until its batch was made, so that it need not be copied.
        cuda_stream: a hint of DALI's.
        use_copy_kernel: likewise.
        blocking: likewise.

    Returns:
        A node; a list of nodes, where `num_outputs` is given. dtype and rank are those of the samples.

    Raises:
        ArgumentTypeError: `source` is none of these, or a function of more arguments.
        DefinitionError: arguments that do not go together.
        SourceError: the source fails, gives nothing, or what is no array of numbers.

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
    if cycle not in _CYCLES:
        raise DefinitionError(
            f"fn.{_KIND}: no such cycle",
            given=short_repr(cycle),
            expected='None, False, "no", True, "quiet" or "raise"',
        )
    whole = isinstance(num_outputs, int) and not isinstance(num_outputs, bool)
    if num_outputs is not None and not (whole and 1 <= num_outputs <= _OUTPUTS):
        raise DefinitionError(
            f"fn.{_KIND}: num_outputs is a whole number from 1 to {_OUTPUTS}",
            given=short_repr(cast(object, num_outputs)),
        )
    by_batch = batch is None or batch
    trace = current_trace()
    common = common_arguments()
    name = common.get("name") or ""
    kinds = _kinds(num_outputs, layout, dtype, ndim)
    called = name or (f"input {trace.num_nodes % OUTSIDE}" if source is None else _name_of(source))
    # in debug mode a definition runs for each batch, and the source of the first one goes on
    code = None if trace.eager is not None else FunctionIdentity(cast(Any, source))
    key = (_KIND, code, num_outputs, cycle, kinds, by_batch, batch_info, trace.num_nodes)
    if key not in trace.shared:
        if source is None:
            _check_fed(num_outputs, cycle, batch_info)
            trace.shared[key] = FeedQueue(kinds, name=called, repeat_last=repeat_last)
        else:
            if repeat_last:
                raise DefinitionError(f"fn.{_KIND}: repeat_last is for what is fed, and there is a source")
            how = _How(kinds=kinds, several=num_outputs is not None, batch=by_batch, name=called, lends=not no_copy)
            stream = _stream(source, cycle, how, batch_info=batch_info)
            trace.shared[key] = _in_processes(stream, prefetch_queue_depth) if parallel else stream
    shared: ExternalStream = trace.shared[key]
    if isinstance(shared, FeedQueue):
        trace.fed[called] = shared
        if trace.eager is not None:
            trace.eager.fill(called, shared)
        trace.journal.register_assumed(shared)
    shared.infer_specs()
    if shared.seek_obstacle is not None:
        said = (
            f"fn.{_KIND}: {called} only goes on ({shared.seek_obstacle}): its iterator cannot go elsewhere, so a state "
            "is of use only where the source stands there, too; each process of a job calls its own"
        )
        _log.log(logging.WARNING if trace.checkpoints else logging.INFO, said)
    nodes = apply_many(StreamInput(shared))
    if isinstance(shared, FeedQueue) and shared.is_assumed and trace.nodes is made_outside:
        what = {"layout": layout, "dtype": dtype, "ndim": ndim, "repeat_last": repeat_last, **common, "name": called}
        made_again[nodes[0].value.node] = lambda: external_source(None, num_outputs=None, **cast(Any, what)).value
    return nodes[0] if num_outputs is None else nodes


def _stream(source: Any, cycle: Any, how: _How, *, batch_info: bool) -> InProcessStream:
    generates, iterates = _generates(source), isinstance(source, Iterator)
    indexed = hasattr(source, "__getitem__") and hasattr(source, "__len__")
    fix = next((fix for kind, fix in _NO_SOURCES if isinstance(source, kind)), None)
    if fix or not (generates or indexed or hasattr(source, "__iter__") or callable(source)):
        raise ArgumentTypeError(
            f"fn.{_KIND}: the source is a function, an iterable of batches or samples, or a generator function",
            given=f"{short_repr(source)} of type {type(source).__name__}",
            fix=fix,
        )
    if generates or indexed or hasattr(source, "__iter__"):
        if _CYCLES[cycle] != "no" and inspect.isgenerator(source):
            raise ArgumentTypeError(
                f"fn.{_KIND}: a generator ends once and cannot begin again",
                given=f"cycle={short_repr(cycle)}",
                fix="give the function that makes the generator, without calling it",
            )
        if batch_info:
            raise DefinitionError(f"fn.{_KIND}: batch_info is for functions, and an iterable is told nothing")
        if indexed and not iterates:
            how["lends"] = False
            return SequenceStream(source, _CYCLES[cycle], **how)
        return IterableStream(source, _CYCLES[cycle], generates=generates, **how)
    if cycle is not None:
        raise DefinitionError(
            f"fn.{_KIND}: cycle is for iterables and generator functions",
            given=f"cycle={short_repr(cycle)} for the function {_name_of(source)}",
            fix="let the function raise StopIteration at the end of each epoch",
        )
    return FunctionStream(source, informed=_takes_one(source), batch_info=batch_info, **how)


def _in_processes(stream: InProcessStream, ahead: int) -> ExternalStream:
    """The same source, called by the worker processes of the pipeline, if it has any.

    Raises:
        ArgumentTypeError: it cannot be divided between processes, or cannot be sent to them.
    """
    trace = current_trace()
    only = isinstance(stream, IterableStream | SequenceStream)
    if only and not stream.batched:
        raise ArgumentTypeError(
            f"fn.{_KIND}: with parallel=True an iterable or generator function gives batches",
            given=f"samples of {stream.name}",
            fix="batch=True; or a function of a types.SampleInfo, which all workers can call",
        )
    if not only and stream.seek_obstacle is not None:
        raise ArgumentTypeError(
            f"fn.{_KIND}: with parallel=True a function takes an argument, so that any worker can make any batch",
            given=f"{stream.name}()",
            fix="a function of the number of the batch; with batch=False of a types.SampleInfo",
        )
    if not trace.worker_options.workers:
        return stream
    payload = pickled(stream, f"fn.{_KIND}: {stream.name}", trace.worker_options.pickler)
    workers = trace.shared.setdefault((_KIND, "workers"), WorkerPool(trace.worker_options.workers))
    return ParallelStream(stream, payload, workers, ahead=ahead, alone=only)


def _generates(source: Any) -> bool:
    """Whether calling it makes a generator."""
    source = _inner(source)
    if inspect.isgeneratorfunction(source):
        return True
    call = getattr(cast(Any, type(source)), "__call__", None)  # noqa: B004  # the method itself is looked at
    return not inspect.isfunction(source) and not inspect.ismethod(source) and inspect.isgeneratorfunction(call)


def _takes_one(function: Callable[..., Any]) -> bool:
    """Whether a function takes one argument; else it takes none.

    Raises:
        ArgumentTypeError: it takes others.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # compiled functions may not tell
        return True
    plain = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    if not plain or len(parameters) > 1:
        raise ArgumentTypeError(
            f"fn.{_KIND}: a source takes no argument, or one that says which batch or sample is meant",
            given=f"{_name_of(function)}{inspect.signature(function)}",
            fix="functools.partial or a lambda for other arguments",
        )
    return bool(parameters)


def _name_of(source: Any) -> str:
    inner = _inner(source)
    return str(getattr(inner, "__qualname__", type(inner).__name__)).rpartition("<locals>.")[2]


def _inner(source: Any) -> Any:
    """What partial applications have been put around."""
    while isinstance(source, functools.partial):
        source = cast(Any, source).func
    return source


def _check_fed(num_outputs: int | None, cycle: Any, batch_info: bool) -> None:
    for what, given in (("num_outputs", num_outputs), ("cycle", cycle), ("batch_info", batch_info)):
        if given:
            raise DefinitionError(
                f"fn.{_KIND}: {what} needs a source",
                given=f"{what}={short_repr(given)}",
                fix="an external_source for each output, if they are fed by hand" if what == "num_outputs" else None,
            )


def _kinds(num_outputs: int | None, layout: Any, dtype: Any, ndim: Any) -> tuple[SampleKind, ...]:
    count = num_outputs or 1
    layouts = _each("layout", layout, count)
    dtypes = [None if each is None else as_dtype(each) for each in _each("dtype", dtype, count)]
    ranks = _each("ndim", ndim, count)
    return tuple(SampleKind(*what) for what in zip(dtypes, ranks, [each or "" for each in layouts], strict=True))


def _each(what: str, given: Any, count: int) -> list[Any]:
    """One for all outputs, or one for each; of the last ones nothing need be said."""
    if not isinstance(given, list | tuple):
        return [given] * count
    listed = list(cast(Sequence[Any], given))
    if len(listed) > count:
        raise DefinitionError(
            f"fn.{_KIND}: {what} has one entry for all outputs, or one for each",
            given=f"{len(listed)} entries",
            expected=f"{count}",
        )
    return [*listed, *[None] * (count - len(listed))]
