"""Conversion of data to tensors and batches of dynamic mode."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from penstock.core import Array, with_call_site
from penstock.dynamic.device_name import device as as_device
from penstock.dynamic.dynamic_tensor import Batch, Tensor, stack_samples
from penstock.dynamic.element_type import DType
from penstock.dynamic.element_type import dtype as as_element_type
from penstock.eager.batch import Batch as Samples
from penstock.eager.eager_call import call_on_rows
from penstock.errors import ArgumentTypeError, DefinitionError, UsageError, short_repr
from penstock.graph.tracing.registry import lookup
from penstock.sources.external.array_conversion import to_sample


def _python_array(data: Any, target: np.dtype[Any] | None) -> Array:
    """Convert a number or list of Python. Without a target dtype, its numbers have 32 bits, as in DALI."""
    try:
        array = np.asarray(data if isinstance(data, int | float) else [np.asarray(item) for item in data])
    except ValueError as error:
        raise DefinitionError(f"a list is one tensor: {error}", fix="batch(list) makes a sample of each item") from None
    return _with_32_bits(array) if target is None else np.asarray(data, target)


def _is_python(data: Any) -> bool:
    """Return True for a number, list, tuple or range. Numbers of NumPy have a dtype of their own."""
    return isinstance(data, int | float | list | tuple | range) and not isinstance(data, np.generic)


def _with_32_bits(array: Array) -> Array:
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        kind = np.dtype(np.int32 if high < 2**31 else np.uint32)
        if low < np.iinfo(kind).min or high > np.iinfo(kind).max:
            raise _RangeError("an integer does not fit 32 bits", given=f"{low} to {high}", fix="np.int64(...)")
        return array.astype(kind)
    return array


class _RangeError(DefinitionError, OverflowError):
    """A Python integer does not fit the element type."""


def _to_tensor(data: Any, kind: Any, layout: str | None, *, copy: bool, pad: bool = False) -> Tensor:
    if isinstance(data, Batch):
        data = stack_samples(data, pad=pad)
    target = None if kind is None else as_element_type(kind).numpy
    old = ""
    if isinstance(data, Tensor):
        array, old = data.array, data.layout or ""
    elif data is None or isinstance(data, str | bytes):
        raise ArgumentTypeError("a tensor contains numbers", given=f"a {type(data).__name__}", fix="np.frombuffer")
    elif _is_python(data):
        array = _python_array(data, target)
    else:
        jax = sys.modules.get("jax")
        if jax is not None and isinstance(data, jax.core.Tracer):
            raise ArgumentTypeError(
                "a value that jax.jit traces has no data", given=short_repr(data), fix="the call before jax.jit"
            )
        array = to_sample(data)
    if array.dtype.kind not in "biuf":
        raise ArgumentTypeError("a tensor contains numbers", given=f"dtype {array.dtype}")
    if target is not None and array.dtype != target:
        cast_result = call_on_rows(lookup("cast"), [Samples([array])], {"dtype": target}, 1)
        array = cast_result[0]
    # As in DALI, a read-only array of NumPy is copied, so that tensors can be written. The memory of a `jax.Array` is
    # shared, and its view stays read-only.
    read_only = isinstance(data, np.ndarray) and not array.flags.writeable
    if copy or read_only or not array.flags.c_contiguous:
        array = np.array(array, order="C")
    letters: Any = old if layout is None else layout
    if not isinstance(letters, str) or len(letters) not in (0, array.ndim):
        raise DefinitionError("layout needs one letter per axis", given=f"{letters!r} for shape {array.shape}")
    return Tensor.of(array, letters)


@with_call_site
def tensor(data: Any, dtype: Any = None, device: Any = None, layout: str | None = None, pad: bool = False) -> Tensor:
    """Copy data to a tensor. A list is one tensor; lists and numbers of Python have 32 bits.

    Args:
        data: An array of any library, a number, a nested list, a `Tensor`, or a `Batch`, which is stacked.
        dtype: Element type; by default that of the data. Arrays are cast as in DALI: rounded, with saturation.
        device: A hint; tensors are in host memory.
        layout: Letters of the axes.
        pad: If True, samples of a batch are padded with zeros to one shape.

    Raises:
        ArgumentTypeError: The data are not numbers.
        DefinitionError: A list is ragged, samples differ in shape, or the layout has another number of axes.

    >>> t = tensor([[1, 2], [3, 4]])
    >>> t.shape, str(t.dtype), t.layout, str(t.device)
    ((2, 2), 'i32', None, 'cpu')
    """
    check_device(device)
    return _to_tensor(data, dtype, layout, copy=True, pad=pad)


@with_call_site
def as_tensor(data: Any, dtype: Any = None, device: Any = None, layout: str | None = None, pad: bool = False) -> Tensor:
    """Wrap data in a tensor, without a copy if possible; otherwise the same as `tensor`.

    The memory of a `jax.Array` stays read-only.
    """
    check_device(device)
    return _to_tensor(data, dtype, layout, copy=False, pad=pad)


@with_call_site
def batch(tensors: Any, dtype: Any = None, device: Any = None, layout: str | None = None) -> Batch:
    """Copy samples to a batch.

    Args:
        tensors: A list with a sample per item, or an array whose first axis is that of the samples.
        dtype: Element type; by default that of the first sample, to which the others are cast.
        device: A hint; batches are in host memory.
        layout: Letters of the axes of a sample.

    Raises:
        DefinitionError: There is no sample, or samples differ in number of axes.

    >>> b = batch([[1], [2, 3]])
    >>> b.batch_size, b.shape, b.slice[-1].shape
    (2, [(1,), (2,)], [(), ()])
    """
    check_device(device)
    return _to_batch(tensors, dtype, layout, copy=True)


@with_call_site
def as_batch(tensors: Any, dtype: Any = None, device: Any = None, layout: str | None = None) -> Batch:
    """Wrap samples in a batch, without a copy if possible; otherwise the same as `batch`."""
    check_device(device)
    if isinstance(tensors, Batch) and dtype is None and layout is None:
        return tensors
    return _to_batch(tensors, dtype, layout, copy=False)


def _to_batch(data: Any, kind: Any, layout: str | None, *, copy: bool) -> Batch:
    if isinstance(data, Tensor) and data.layout:
        raise UsageError("a tensor with a layout is not a batch", given=data.layout, fix="as_tensor(data, layout='')")
    if isinstance(data, Samples):
        data = Batch.of(data)
    if not isinstance(data, Batch) and (isinstance(data, int | float) or getattr(data, "ndim", 1) == 0):
        raise ArgumentTypeError("a batch needs an axis of samples", given=short_repr(data))
    samples: list[Tensor] = []
    for sample in data:
        # The first sample decides. Numbers of Python are converted to its type, and arrays are cast below.
        target = samples[0].dtype if kind is None and samples and _is_python(sample) else kind
        samples.append(_to_tensor(sample, target, layout, copy=copy))
    if not samples:
        raise DefinitionError("a batch needs at least one sample", given="none")
    first = samples[0]
    if any(sample.dtype != first.dtype for sample in samples):
        samples = [_to_tensor(sample, first.dtype, None, copy=False) for sample in samples]
    return Batch.of(Samples([sample.array for sample in samples], first.layout))


def check_device(device: Any) -> None:
    """Check the name of a device, which is a hint.

    Raises:
        ArgumentTypeError: It is of another type.
        UsageError: There is no such device.
    """
    as_device(device)


def repeat_sample(sample: Any, batch_size: int, device: Any = None, dtype: Any = None) -> Batch:
    """Return a batch that repeats a sample."""
    if isinstance(sample, Batch):
        raise UsageError("a batch is not one sample", given="a Batch", fix="one of its tensors")
    tensor = as_tensor(sample, dtype, device)
    return Batch.of(Samples([tensor.array] * batch_size, tensor.layout))


def _of_type(self: DType, data: Any) -> Tensor:
    """Copy data to a tensor of this type."""
    return tensor(data, self)


# Methods of DALI's classes that need the conversion.
setattr(Batch, "broadcast", staticmethod(with_call_site(repeat_sample)))  # noqa: B010  # pyright refuses an assignment
setattr(DType, "__call__", with_call_site(_of_type))  # noqa: B010  # as above
