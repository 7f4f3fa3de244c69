"""Data of a call: which arguments are samples or batches, and what the result is for them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain, repeat
from os import PathLike, fsencode
from typing import Any, cast

import numpy as np

from penstock.core import Array, Column, Spec
from penstock.eager.batch import Batch, check_alike, common_shape
from penstock.eager.call_form import CallForm
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph.arguments.argument_kinds import MismatchError, coerce
from penstock.graph.ir.node import NodeHandle
from penstock.sources.external.array_conversion import to_sample
from penstock.sources.external.library_samples import is_single_sample, is_tensor


class DataKind(IntEnum):
    """Kinds of data. The result of a call has the last kind among its inputs."""

    NONE = 0
    """Not data: a constant."""
    SAMPLE = 1
    """An array."""
    LIST = 2
    """A list or tuple of arrays, which is a batch without a layout."""
    BATCH = 3
    """A `Batch`, or a tensor list of `Pipeline.run`."""


# Looking a member up in its class takes 0.6 us in Python 3.11, and a call needs a dozen.
_NONE, _SAMPLE, _LIST, _BATCH = DataKind

# Kinds of the types that most arguments have. To tell them by `isinstance` takes a tenth of a call's time.
_KINDS: dict[type, DataKind] = {
    np.ndarray: _SAMPLE, int: _NONE, float: _NONE, bool: _NONE, str: _NONE, type(None): _NONE
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DataInput:
    """Data of one argument.

    Args:
        column: The samples; one for all samples of the call, if it is an array.
        layout: Layout of a sample.
        shared: True if one sample stands for all samples of the call.
    """

    column: Column
    layout: str
    shared: bool

    @property
    def kind(self) -> tuple[np.dtype[Any], int, str]:
        """Dtype, number of axes and layout."""
        sample = self.column[0]
        return sample.dtype, sample.ndim, self.layout

    @property
    def exact_spec(self) -> Spec:
        """Spec with the extents that all samples have."""
        return Spec(self.column[0].dtype, common_shape(self.column), self.layout)

    @property
    def open_spec(self) -> Spec:
        """Spec of samples with any extents."""
        return Spec(self.column[0].dtype, (None,) * self.column[0].ndim, self.layout)

    @property
    def dense(self) -> bool:
        """True if the samples are one array."""
        return isinstance(self.column, np.ndarray)

    def rows(self, count: int) -> Column:
        """Return the column with an entry for each sample of the call."""
        return [self.column[0]] * count if self.shared else self.column


@dataclass(frozen=True, slots=True)
class Slot:
    """Place of data among the arguments of a call: input number `index`."""

    index: int


@dataclass
class CallData:
    """A call, split into data and constants.

    Args:
        args: Positional arguments, with a slot in the place of data.
        kwargs: Arguments by name, with a slot in the place of data.
        inputs: The data.
        kind: Kind of the result.
        rows: Number of samples.
        list_type: Class of a tensor list among the inputs, whose samples and layout it takes; otherwise None.
        to_jax: Moves an array to the devices of a `jax.Array` among the inputs; None if there is none.
    """

    args: list[Any]
    kwargs: dict[str, Any]
    inputs: list[DataInput] = field(default_factory=list[DataInput])
    kind: DataKind = _NONE
    rows: int = 1
    list_type: Callable[[Any, str], Any] | None = None
    to_jax: Callable[[Array], Any] | None = None

    def deliver(self, column: Column, layout: str) -> Any:
        """Return a result in the kind of the inputs."""
        if self.kind is _BATCH:
            return (self.list_type or Batch)(column, layout)
        if self.kind is _LIST:
            return [sample if self.to_jax is None else self.to_jax(sample) for sample in column]
        sample = column[0, ...] if isinstance(column, np.ndarray) else column[0]
        return sample if self.to_jax is None else self.to_jax(sample)


def split_call(
    name: str, form: CallForm, args: Sequence[Any], kwargs: Mapping[str, Any], rows: int | None = None
) -> CallData | None:
    """Split a call into data and constants. Returns None if none of its inputs is data and `rows` is None.

    Args:
        name: The operator, for messages.
        form: Form of its calls.
        args: Positional arguments.
        kwargs: Arguments by name, without those that only eager calls have.
        rows: Number of samples, whose result is a `Batch`; None takes it from the data.

    Raises:
        ArgumentTypeError: An argument is traced by JAX, or an argument that is the same for all samples has several
            values.
        DefinitionError: Batches differ in size, or the samples of a batch in kind.
    """
    if form.path_inputs:
        names = dict(enumerate(form.positional))
        args = [_path_bytes(item) if names.get(n) in form.path_inputs else item for n, item in enumerate(args)]
        kwargs = {key: _path_bytes(value) if key in form.path_inputs else value for key, value in kwargs.items()}
    args = [
        _as_constant(form, key, value) if key in form.node_arguments else value
        for key, value in zip(chain(form.positional, repeat("")), args, strict=False)
    ]
    kwargs = {key: _as_constant(form, key, value) for key, value in kwargs.items()}
    kinds = [_kind(value) for value in args]
    kinds_by_name = {key: _kind(value) for key, value in kwargs.items()}
    # An array by name alone, such as a size, is a constant; nothing but data is a `Batch`.
    named = [kind for key, kind in kinds_by_name.items() if key in form.positional or kind is _BATCH]
    if (rows is None and not any((*kinds, *named))) or _has_nodes(args) or _has_nodes(kwargs.values()):
        return None
    kind = _BATCH if rows is not None else max(*kinds, *kinds_by_name.values(), _NONE)
    slots, by_name = list(args), dict(kwargs)
    call = CallData(slots, by_name, kind=kind)
    batches: list[Any] = []
    if kind > _SAMPLE:
        batches += [value for value, kind in zip(args, kinds, strict=True) if kind > _SAMPLE]
        batches += [kwargs[key] for key, kind in kinds_by_name.items() if kind > _SAMPLE]
        call.rows = _common_size(batches, rows)
    for number, (value, kind) in enumerate(zip(args, kinds, strict=True)):
        if kind is not _NONE:
            slots[number] = _add(name, call, value, kind, is_batch=bool(batches))
    for key, kind in kinds_by_name.items():
        value = kwargs[key]
        if key not in form.node_arguments:
            if kind is _BATCH:
                raise ArgumentTypeError(f"{key} is the same for all samples", given="a Batch", expected="one value")
        elif kind > _SAMPLE or (kind is _SAMPLE and (key in form.positional or not batches)):
            by_name[key] = _add(name, call, value, kind, is_batch=bool(batches))
        elif batches and is_per_sample(form.hints[key], value, call.rows):
            by_name[key] = _add(name, call, [*cast(Any, np.asarray(value))], _LIST, is_batch=True)
    return call


def _common_size(batches: Sequence[Any], rows: int | None) -> int:
    sizes = {len(batch) for batch in batches}
    if rows is not None:
        sizes.add(rows)
    if len(sizes) > 1:
        raise DefinitionError(
            "the batches of a call must have one size",
            given=" and ".join(map(str, sorted(sizes))),
            fix="an array, which stands for all samples",
        )
    return sizes.pop()


def _add(name: str, call: CallData, value: Any, kind: DataKind, *, is_batch: bool) -> Slot:
    """Add data to a call, and return its place."""
    if kind is _BATCH:
        batch = value
        if not isinstance(batch, Batch):
            host = value.as_cpu()
            call.list_type = type(host)
            batch = Batch([np.asarray(sample) for sample in host], host.layout())
        data = DataInput(batch.column, batch.layout, shared=False)
    else:
        items = cast(Sequence[Any], value if kind is _LIST else [value])
        column = [_to_host(name, call, item) for item in items]
        check_alike(column)
        data = DataInput(column, "", shared=is_batch and kind is _SAMPLE)
    call.inputs.append(data)
    return Slot(len(call.inputs) - 1)


def _to_host(name: str, call: CallData, array: Any) -> Array:
    """Return an array in host memory, and note the devices of a `jax.Array`."""
    if _is_jax_array(array):
        jax = sys.modules["jax"]
        if isinstance(array, jax.core.Tracer):
            raise ArgumentTypeError(
                "a value that jax.jit traces has no data to compute with",
                given=short_repr(array),
                fix=f"{name} in a pipeline, and the JAX code in a function decorated with fn.jax_function; "
                "or the call before the jitted function",
            )
        if call.to_jax is None:
            devices = array.devices()
            device = next(iter(devices)) if len(devices) == 1 else None
            call.to_jax = lambda result: jax.device_put(jax.numpy.asarray(result), device)
    sample = np.asarray(to_sample(array))  # without a subclass, whose methods kernels do not expect
    return sample if sample.flags.c_contiguous else np.ascontiguousarray(sample)


def _as_constant(form: CallForm, key: str, value: Any) -> Any:
    """Return a list of scalars of NumPy or JAX as one of numbers if it can be one value for all samples.

    Such a list is no batch: ``list(np.array(image.shape[:2]) // 2)`` is a size. Other values are returned unchanged.
    """
    if not isinstance(value, list | tuple):
        return value
    items = cast(Sequence[Any], value)
    scalars = items and all(_is_array(item) and getattr(item, "ndim", None) == 0 for item in items)
    if not scalars or not _fits(form.hints.get(key, Any), items):
        return cast(Any, value)
    return [np.asarray(item).item() for item in items]


def _kind(value: Any) -> DataKind:
    known = _KINDS.get(cast(type[Any], type(value)))
    if known is not None:
        return known
    if isinstance(value, list | tuple):
        items = cast(Sequence[Any], value)
        return _LIST if items and all(map(_is_array, items)) else _NONE
    if _is_array(value):
        return _SAMPLE
    # A tensor list belongs to a later stage, so its methods tell it.
    is_batch = isinstance(value, Batch) or (hasattr(value, "is_dense_tensor") and hasattr(value, "as_cpu"))
    return _BATCH if is_batch else _NONE


def _is_array(value: Any) -> bool:
    if isinstance(value, np.ndarray | np.generic):
        return True
    if isinstance(value, str | int | float):
        return False
    if _is_jax_array(value) or isinstance(value, bytes | bytearray | memoryview):
        return True
    return is_tensor(value) or is_single_sample(value)


def _path_bytes(value: Any) -> Any:
    """Return the bytes of a path, or of each path of a list. Elsewhere a path stands for the content of its file."""
    if isinstance(value, str | PathLike):
        return np.frombuffer(fsencode(cast("str | PathLike[str]", value)), np.uint8)
    return list(map(_path_bytes, cast(list[Any], value))) if isinstance(value, list) else value


def _is_jax_array(value: Any) -> bool:
    # Without JAX in memory there is no `jax.Array`, and importing it takes most of a second.
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, getattr(jax, "Array", ()))


def _has_nodes(values: Iterable[Any]) -> bool:
    for value in values:
        if type(value) in _KINDS:
            continue
        for item in cast(Sequence[Any], value) if isinstance(value, list | tuple) else (value,):
            if isinstance(item, NodeHandle):
                return True
    return False


def is_per_sample(hint: Any, value: Any, rows: int) -> bool:
    """True if an argument has one entry per sample, and cannot be one value for all samples."""
    if not isinstance(value, list | tuple | np.ndarray) or getattr(cast(Any, value), "ndim", 1) == 0:
        return False
    items = cast(Sequence[Any], value)
    return len(items) == rows and not _fits(hint, value) and all(_fits(hint, item) for item in items)


def _fits(hint: Any, value: Any) -> bool:
    try:
        coerce(hint, value)
    except MismatchError:
        return False
    return True
