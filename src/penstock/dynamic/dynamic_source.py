"""External sources of dynamic mode: data of a function or iterable, one item per call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from types import GeneratorType
from typing import Any, cast

from penstock.core import with_call_site
from penstock.dynamic.dynamic_tensor import Batch, Tensor
from penstock.dynamic.tensor_conversion import as_batch, as_tensor, check_device, repeat_sample
from penstock.errors import ArgumentTypeError, DefinitionError, UsageError, short_repr

_CYCLES = {None: "no", False: "no", "no": "no", True: "quiet", "quiet": "quiet", "raise": "raise"}


class ExternalSource:
    """Items of a function, iterable or generator, as tensors or batches.

    A call takes one item. An item that is a `Batch`, or a `TensorList` of a pipeline, becomes a `Batch`; any other
    item, also a list, becomes one `Tensor`. Exceptions of the source pass through, with StopIteration at its end.

    Args:
        source: A function without parameters, an iterable, or a generator function.
        num_outputs: Number of outputs. If there are several, an item is a sequence with one entry per output.
        cycle: "no", None or False to raise StopIteration at the end and at every later call; "quiet" or True to begin
            again at the end; "raise" to raise StopIteration once, and then begin again.
        device: A hint.
        layout: Letters of the axes of a sample, for all outputs or one per output.
        dtype: Element type, for all outputs or one per output.

    Raises:
        ArgumentTypeError: The source is none of these, or `cycle` is set for a generator, which cannot begin again.
        UsageError: The function has parameters, or another argument is out of range.

    >>> import numpy as np
    >>> from penstock import dynamic as ndd
    >>> source = ndd.ExternalSource([np.int32([1]), np.int32([2])], cycle="quiet")
    >>> [source().item() for _ in range(3)]
    [1, 2, 1]
    """

    @with_call_site
    def __init__(
        self,
        source: Any,
        num_outputs: int = 1,
        *,
        cycle: str | bool | None = None,
        device: Any = "cpu",
        layout: str | Sequence[str | None] | None = None,
        dtype: Any = None,
    ) -> None:
        check_device(device)
        if not isinstance(cycle, str | bool | None) or cycle not in _CYCLES:
            raise UsageError("unknown cycle", given=short_repr(cycle), expected="'no', 'quiet' or 'raise'")
        if num_outputs < 1:
            raise UsageError("num_outputs must be at least 1", given=num_outputs)
        self._cycle = _CYCLES[cycle]
        self._num_outputs = num_outputs
        self._layouts = _per_output("layout", layout, num_outputs)
        self._dtypes = _per_output("dtype", dtype, num_outputs)
        self._begin = _opener(source, self._cycle)
        self._items: Iterator[Any] | None = None

    @with_call_site
    def __call__(self, *, batch_size: int | None = None) -> Any:
        """Take the next item.

        Args:
            batch_size: If set, a `Tensor` is repeated to a batch of this size, and a `Batch` must have it.

        Returns:
            A `Tensor` or `Batch`; a tuple of them if there are several outputs.

        Raises:
            StopIteration: The source has ended.
            ArgumentTypeError: Some outputs are batches and others are not.
            DefinitionError: The item has another number of outputs, or a batch another size.
        """
        item = self._next_item()
        entries = [item]
        if self._num_outputs > 1:
            if not isinstance(item, list | tuple) or len(cast(list[Any], item)) != self._num_outputs:
                raise DefinitionError(
                    "an item of the source has another number of outputs",
                    given=short_repr(item),
                    expected=f"a list or tuple of {self._num_outputs}",
                )
            entries = list(cast(list[Any], item))
        values = [_convert(*output) for output in zip(entries, self._dtypes, self._layouts, strict=True)]
        if len({type(value) for value in values}) > 1:
            raise ArgumentTypeError("the outputs of an item must all be batches, or none")
        if batch_size is not None:
            values = [_of_size(value, batch_size) for value in values]
        return values[0] if self._num_outputs == 1 else tuple(values)

    def _next_item(self) -> Any:
        if self._items is None:
            self._items = self._begin()
        try:
            return next(self._items)
        except StopIteration:
            if self._cycle != "no":
                self._items = self._begin()
            if self._cycle != "quiet":
                raise
        return next(self._items)


def _opener(source: Any, cycle: str) -> Callable[[], Iterator[Any]]:
    """Return a function that begins the source."""
    if isinstance(source, GeneratorType):
        if cycle != "no":
            raise ArgumentTypeError(
                "a generator cannot begin again", given=f"cycle={cycle!r}", fix="the generator function"
            )
        return lambda: cast(Iterator[Any], source)
    if inspect.isgeneratorfunction(source):
        return source
    if hasattr(source, "__iter__") or hasattr(source, "__next__"):
        return lambda: iter(source) if hasattr(source, "__iter__") else cast(Iterator[Any], source)
    if not callable(source):
        raise ArgumentTypeError("a source is a function or an iterable", given=short_repr(source))
    if cycle != "no":
        raise UsageError("a function does not end, so it cannot begin again", given=f"cycle={cycle!r}")
    try:
        required = [p.name for p in inspect.signature(source).parameters.values() if p.default is p.empty]
    except ValueError:  # a function of C without a signature
        required = []
    if required:
        raise UsageError(
            "the function of a source takes no arguments", given=f"{short_repr(source)} with {required[0]}"
        )
    return lambda: map(lambda _: source(), repeat(None))  # noqa: C417  # a generator turns StopIteration into an error


def _per_output(name: str, value: Any, count: int) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        return [value] * count
    entries = cast(Sequence[Any], value)
    if len(entries) != count:
        raise UsageError(f"{name} has one entry per output", given=f"{len(entries)} entries", expected=count)
    return entries


def _convert(item: Any, dtype: Any, layout: str | None) -> Tensor | Batch:
    if isinstance(item, Batch):
        return item if dtype is None and layout is None else as_batch(item, dtype, layout=layout)
    if hasattr(item, "is_dense_tensor"):  # a TensorList
        samples = item.as_cpu()
        return as_batch(list(samples), dtype, layout=samples.layout() if layout is None else layout)
    return as_tensor(item, dtype, layout=layout)


def _of_size(value: Tensor | Batch, batch_size: int) -> Batch:
    if isinstance(value, Tensor):
        return repeat_sample(value, batch_size)
    if value.batch_size != batch_size:
        raise DefinitionError("the batch has another size", given=value.batch_size, expected=batch_size)
    return value
