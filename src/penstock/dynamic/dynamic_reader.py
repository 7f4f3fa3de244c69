"""Readers of dynamic mode: data sets whose epochs are loops."""

from __future__ import annotations

import functools
import inspect
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, cast

from penstock.core import user_call_site, with_call_site
from penstock.core.call_site import pretend_at
from penstock.dynamic.body_call import READER
from penstock.dynamic.dynamic_tensor import Batch, Tensor
from penstock.dynamic.element_type import DType
from penstock.dynamic.evaluation_context import EvalContext
from penstock.dynamic.loop_capture import BodyStep, capturing
from penstock.dynamic.tensor_conversion import check_device
from penstock.eager.batch import Batch as Samples
from penstock.errors import ArgumentTypeError, ContextError, StateError, UsageError, about, short_repr
from penstock.graph import DataNode
from penstock.graph.tracing.registry import lookup
from penstock.types import LastBatchPolicy

if TYPE_CHECKING:
    from penstock.dynamic.captured_loop import CapturedLoop
    from penstock.dynamic.reader_run import ReaderPosition, ReaderRun
    from penstock.pipeline import Pipeline

_BATCHES, _SAMPLES, _CAPTURED = "batches", "single samples", "captured batches"


@dataclass(frozen=True)
class _Style:
    """Style of a reader's use. The first use decides.

    Args:
        delivery: Kind of the items that it delivers.
        rows: Samples per batch.
    """

    delivery: str
    rows: int


class ReaderState(str):
    """Position of a reader, as a short text that can be saved."""

    __slots__ = ()


class Reader:
    """Data set that is read in epochs.

    The data set is opened when the reader is made, so that a missing file is an error there. Batches are read ahead, on
    threads that end when the reader is dropped.

    Args:
        max_batch_size: Default and limit of the batch size of `next_epoch`; None for neither.
        name: Name in messages.
        device: A hint; readers read to host memory.
        num_inputs: Must be None or 0, because readers do not take inputs.
        enable_checkpointing: DALI's hint; the state of every reader can be saved.
        last_batch_policy: None for DALI's epochs: all batches are full, and an epoch begins where the last batch of the
            preceding one ended. FILL, DROP or PARTIAL for exact epochs, each of which begins with the first sample of
            its order. Not in DALI.
        **arguments: Arguments of the reader in `penstock.fn.readers`, as Python values or tensors. Several shards are
            contiguous by default, as in DALI. The order of `random_shuffle` is Penstock's: a permutation of the
            whole data set that depends on the epoch and on `seed`, which is 0 by default.

    Raises:
        ArgumentTypeError: The reader does not have an argument, lacks one, or one is a batch.
        SourceError: The data set is missing or damaged.
        UsageError: A number or policy is out of range.

    >>> from penstock import dynamic as ndd
    >>> reader = ndd.readers.Arrays(data=[0, 1, 2, 3, 4, 5, 6])
    >>> for _ in range(2):
    ...     print([[x.item() for x in batch] for (batch,) in reader.next_epoch(batch_size=3)])
    [[0, 1, 2], [3, 4, 5], [6, 0, 1]]
    [[2, 3, 4], [5, 6, 0], [1, 2, 3]]
    >>> reader = ndd.readers.Arrays(data=[0, 1, 2, 3, 4, 5, 6], last_batch_policy=ndd.LastBatchPolicy.PARTIAL)
    >>> [[x.item() for x in batch] for (batch,) in reader.next_epoch(batch_size=3)]
    [[0, 1, 2], [3, 4, 5], [6]]
    """

    # Name of the reader in `penstock.fn`.
    operator_name: ClassVar[str] = ""

    @with_call_site
    def __init__(
        self,
        max_batch_size: int | None = None,
        name: str | None = None,
        device: Any = "cpu",
        num_inputs: int | None = None,
        *,
        enable_checkpointing: bool = False,
        last_batch_policy: LastBatchPolicy | None = None,
        **arguments: Any,
    ) -> None:
        del enable_checkpointing
        if not self.operator_name:
            raise ContextError("Reader is the base class of readers", fix="readers.File(...)")
        check_device(device)
        if num_inputs:
            raise UsageError("readers do not take inputs", given=f"num_inputs={num_inputs}", fix="leave it out")
        if last_batch_policy is LastBatchPolicy.PAD:
            raise UsageError(
                "PAD marks the samples that fill the last batch with a mask, which dynamic mode does not deliver",
                fix="LastBatchPolicy.PARTIAL, or pad_last_batch=True without a policy",
            )
        self._max_batch_size = None if max_batch_size is None else _check_batch_size(max_batch_size)
        self._name = name or type(self).__name__
        self._policy = last_batch_policy
        self._where = user_call_site()
        with about(f"readers.{type(self).__name__}"):
            self._arguments = _plain(self.operator_name, arguments)
            self._keys: tuple[str, ...] | None = None
            self._traced = self._trace(self._max_batch_size or 1, 1)
            self._num_outputs = len(self._traced.graph.outputs)
        self._style: _Style | None = None
        self._run: ReaderRun | None = None
        self._loop: CapturedLoop | None = None
        self._start: ReaderPosition | None = None
        self._epochs = 0

    def _trace(self, rows: int, threads: int, definition: Callable[[], Sequence[DataNode]] | None = None) -> Pipeline:
        """Return the pipeline of a definition, by default of the reader alone."""
        from penstock.dynamic.reader_run import define_pipeline  # noqa: PLC0415  # needs JAX, which eager calls do not

        with pretend_at(self._where):
            return define_pipeline(definition or self._define, rows, threads, self._name)

    def _define(self) -> list[DataNode]:
        """Record the reader in the definition that is being traced. Returns a node per output."""
        result: Any = lookup(self.operator_name)(**self._arguments, name="reader")
        if isinstance(result, Mapping):
            named = cast(Mapping[str, DataNode], result)
            self._keys = tuple(named)
            return list(named.values())
        return [result] if isinstance(result, DataNode) else list(cast(Sequence[DataNode], result))

    @with_call_site
    def next_epoch(self, batch_size: int | None = None, ctx: EvalContext | None = None, capture: bool = False) -> Any:
        """Iterate over the next epoch.

        An epoch of DALI has as many full batches as its samples need, counted from where the reader is. If you leave a
        loop early, the next epoch continues after the last batch that was delivered. With `last_batch_policy`, the next
        epoch begins with its first sample, wherever you left this one.

        Args:
            batch_size: Samples per batch; by default the reader's `max_batch_size`, or single samples.
            ctx: Context whose number of threads counts; by default the current one.
            capture: If True, the operators of the loop body are recorded in the first step and then computed ahead, in
                the pipeline of the reader. Results do not change.

        Returns:
            An iterator of tuples with a `Batch` per output, or a `Tensor` for single samples. Readers with named
            outputs, such as TFRecord, yield dictionaries.

        Raises:
            UsageError: The batch size is out of range or changes, or a captured loop has none.
            ContextError: The reader is used in another style. While iterating: another epoch has begun, or the body of
                a captured loop makes other calls than in its first step.
            SampleError: While iterating, a sample is bad.
        """
        style = self._style_of(batch_size, _CAPTURED if capture else _BATCHES)
        if capture and style.delivery is _SAMPLES:
            raise UsageError("a captured loop needs a batch size", fix="next_epoch(batch_size=..., capture=True)")
        self._check_style(style)
        return self._captured_epoch(style, ctx) if capture else self._epoch(style, ctx)

    @with_call_site
    def __call__(self, *, batch_size: int | None = None) -> Any:
        """Return the next batch, or the next sample without a batch size. Epochs do not end.

        Raises:
            UsageError: The batch size is out of range or changes, or the reader has exact epochs.
            ContextError: The reader is used in another style.
        """
        if self._policy is not None:
            raise UsageError("exact epochs have an end", given="last_batch_policy", fix="next_epoch()")
        style = self._style_of(batch_size, _BATCHES)
        return self._deliver(self._started(style, None).next_batch())

    def _epoch(self, style: _Style, ctx: EvalContext | None) -> Iterator[Any]:
        run = self._started(style, ctx)
        for number in self._begin_epoch(run):
            yield self._deliver(self._next_batch(run, number))

    def _captured_epoch(self, style: _Style, ctx: EvalContext | None) -> Iterator[Any]:
        from penstock.dynamic.captured_loop import CapturedLoop  # noqa: PLC0415  # as in `_trace`

        run = self._started(style, ctx)
        if self._loop is None:
            self._loop = CapturedLoop(self._policy, run)
        loop, first = self._loop, True
        trace = partial(self._trace, style.rows, (ctx or EvalContext.current()).num_threads)
        for number in self._begin_epoch(run):
            step = self._next_step(loop, number, first)
            with capturing(step):
                yield self._named(step.batches(READER, self._num_outputs))
            self._finish_step(loop, step, trace)
            first = False

    def _begin_epoch(self, run: ReaderRun) -> Iterator[int]:
        """Begin an epoch, and yield its number for each of its batches."""
        number = self._epochs
        # A position that was restored is inside of its epoch, which is completed first, or at its end.
        if run.is_exact and (number or run.at_end):
            run.end_epoch()
        self._epochs += 1
        if not run.is_exact:
            yield from repeat(number, run.batches_of_epoch(number))
        while run.is_exact and not (self._run or run).at_end:
            yield number

    @with_call_site
    def _next_batch(self, run: ReaderRun, number: int) -> list[Samples]:
        self._check_current(number)
        return run.next_batch()

    @with_call_site
    def _next_step(self, loop: CapturedLoop, number: int, first: bool) -> BodyStep:
        self._check_current(number)
        step = loop.next_step(first=first)
        self._run = loop.run
        return step

    @with_call_site
    def _finish_step(self, loop: CapturedLoop, step: BodyStep, trace: Callable[..., Pipeline]) -> None:
        loop.finish(step, self._define, trace)
        self._run = loop.run

    def _check_current(self, number: int) -> None:
        """Check that no other epoch has begun.

        Raises:
            ContextError: One has.
        """
        if self._epochs != number + 1:
            raise ContextError(
                "another epoch of this reader has begun",
                given="an older iterator of next_epoch",
                fix="one loop at a time, or a reader for each loop",
            )

    @with_call_site
    def _started(self, style: _Style, ctx: EvalContext | None) -> ReaderRun:
        """Return the run, which starts with the first use."""
        self._check_style(style)
        if self._run is None:
            from penstock.dynamic.reader_run import ReaderPosition, ReaderRun  # noqa: PLC0415  # as in `_trace`

            self._style = style
            threads = (ctx or EvalContext.current()).num_threads
            pipeline = self._trace(style.rows, threads)
            self._run = ReaderRun(pipeline, self._policy, self._start or ReaderPosition())
        return self._run

    def _style_of(self, batch_size: int | None, delivery: str) -> _Style:
        rows = self._max_batch_size if batch_size is None else self._check_limit(batch_size)
        return _Style(_SAMPLES, 1) if rows is None else _Style(delivery, rows)

    def _check_style(self, style: _Style) -> None:
        used = self._style
        if used is None or used == style:
            return
        if used.delivery == style.delivery:
            raise UsageError(
                "the batch size of a reader cannot change",
                given=f"{style.rows}, after {used.rows}",
                fix="another reader",
            )
        raise ContextError(
            "a reader delivers in one style",
            given=f"{style.delivery}, after {used.delivery}",
            fix="another reader",
        )

    def _check_limit(self, batch_size: Any) -> int:
        rows = _check_batch_size(batch_size)
        if self._max_batch_size is not None and rows > self._max_batch_size:
            raise UsageError("the batch size is above max_batch_size", given=rows, expected=self._max_batch_size)
        return rows

    def _deliver(self, outputs: Sequence[Samples]) -> Any:
        single = self._style is not None and self._style.delivery is _SAMPLES
        return self._named([_only_sample(samples) if single else Batch.of(samples) for samples in outputs])

    def _named(self, values: Sequence[Any]) -> Any:
        return tuple(values) if self._keys is None else dict(zip(self._keys, values, strict=True))

    def get_metadata(self, batch_size: int | None = None) -> dict[str, Any]:
        """Return the size of the data set and the shard, under DALI's names.

        Args:
            batch_size: DALI's hint; it has no effect.
        """
        del batch_size
        return self._traced.reader_meta("reader")

    def get_state(self, **_hints: Any) -> ReaderState:
        """Return the position after the last batch that was delivered, for `set_state` of a reader of the same data."""
        position = self._start if self._run is None else self._run.position
        epoch, samples = (0, 0) if position is None else (position.epoch, position.samples)
        text = json.dumps({"reader": self.operator_name, "epoch": epoch, "samples": samples})
        return ReaderState(urlsafe_b64encode(text.encode()).decode())

    @with_call_site
    def set_state(self, state: str | bytes) -> None:
        """Continue at the position of another reader of the same data, which may have had another batch size.

        As in DALI, the next epoch has as many batches as any other, from that position on. With `last_batch_policy`,
        it has the rest of the saved epoch.

        Raises:
            ContextError: The reader has delivered a batch.
            StateError: It is not the state of such a reader.
        """
        from penstock.dynamic.reader_run import ReaderPosition  # noqa: PLC0415  # as in `_trace`

        if self._run is not None:
            raise ContextError("the reader has already begun", fix="set_state before the first batch")
        text = state.decode() if isinstance(state, bytes) else state
        try:
            saved = json.loads(urlsafe_b64decode(text))
            name, epoch, samples = saved["reader"], int(saved["epoch"]), int(saved["samples"])
        except (Base64Error, ValueError, KeyError, TypeError):
            raise StateError(
                "not the state of a reader", given=short_repr(text), expected="reader.get_state() of Penstock"
            ) from None
        if name != self.operator_name:
            raise StateError("the state belongs to another reader", given=name, expected=self.operator_name)
        self._start = ReaderPosition(epoch, samples)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.get_metadata()['epoch_size']} samples)"


def _only_sample(samples: Samples) -> Tensor:
    return Tensor.of(samples[0], samples.layout)


def _check_batch_size(batch_size: Any) -> int:
    if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
        raise UsageError("a batch size is an integer of at least 1", given=short_repr(batch_size))
    return batch_size


def _plain(operator_name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a reader as `penstock.fn` takes them.

    Raises:
        ArgumentTypeError: The reader does not have an argument, lacks one, or one is a batch.
    """
    operator = lookup(operator_name)
    plain: dict[str, Any] = {}
    for key, value in arguments.items():
        if isinstance(value, Batch):
            raise ArgumentTypeError(f"{key} is the same for all samples", given="a Batch", expected="one value")
        if key in ("name", "preserve"):
            raise ArgumentTypeError(f"unknown argument {key}")
        if value is not None:
            plain[key] = (
                value.array if isinstance(value, Tensor) else value.numpy if isinstance(value, DType) else value
            )
    operator.check_names(plain)
    parameters = inspect.signature(operator.function).parameters.values()
    missing = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty and p.name not in plain]
    if missing:
        raise ArgumentTypeError(f"the argument {missing[0]} is missing")
    # DALI's shards are contiguous. Those of a pipeline are slices of every batch by default.
    if plain.get("num_shards", 1) > 1:
        plain.setdefault("shard_mode", "contiguous")
    return plain


@functools.cache
def reader_class(name: str, operator_name: str) -> type[Reader]:
    """Return the class of a reader.

    Args:
        name: Name of the class, such as "File".
        operator_name: Name of the reader in `penstock.fn`.
    """
    summary = (lookup(operator_name).__doc__ or "").partition("\n")[0]
    doc = f"{summary}\n\n    Arguments: those of `penstock.fn.{operator_name}` by name, and those of `Reader`.\n    "
    namespace = {"operator_name": operator_name, "__doc__": doc, "__module__": "penstock.dynamic.readers"}
    return type(name, (Reader,), namespace)
