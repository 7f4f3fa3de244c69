"""`Tensor` and `Batch` of dynamic mode: samples in host memory that compute like DALI's."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any, Self, cast, overload

import numpy as np

from penstock.core import Array, with_call_site
from penstock.display.batch_text import batch_text, tensor_text
from penstock.dynamic.element_type import DType, element_type
from penstock.dynamic.index_layout import kept_letters
from penstock.dynamic.tensor_base import Elementwise
from penstock.eager.batch import Batch as Samples
from penstock.errors import ArgumentTypeError, ContextError, DefinitionError, UsageError, short_repr


class Tensor(Elementwise):
    """One sample with an element type and a layout, from the data that `tensor` and `as_tensor` take.

    Args:
        data: An array of any library, a number, a nested list, a `Tensor` or a `Batch`.
        dtype: Element type; by default that of the data.
        device: A hint; tensors are in host memory.
        layout: Letters of the axes.
        copy: True to copy the data.
    """

    __slots__ = ("_array", "_layout")

    @with_call_site
    def __init__(
        self, data: Any, dtype: Any = None, device: Any = None, layout: str | None = None, *, copy: bool = False
    ) -> None:
        made = (_conversion().tensor if copy else _conversion().as_tensor)(data, dtype, device, layout)
        self._array, self._layout = made.array, made.layout or ""

    @classmethod
    def of(cls, array: Array, layout: str = "") -> Self:
        """Return the tensor of an array, as it is."""
        made = cls.__new__(cls)
        made._array, made._layout = array, layout  # noqa: SLF001  # of this class
        return made

    @property
    def array(self) -> Array:
        """The elements, in the memory of this tensor."""
        return self._array

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return self._array.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._array.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._array.size

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._array.nbytes

    @property
    def itemsize(self) -> int:
        """Size of an element in bytes."""
        return self._array.itemsize

    @property
    def dtype(self) -> DType:
        """Element type."""
        return element_type(self._array.dtype)

    @property
    def layout(self) -> str | None:
        """Letters of the axes, or None."""
        return self._layout or None

    def _copied(self) -> Tensor:
        return Tensor.of(self._array.copy(), self._layout)

    @with_call_site
    def torch(self, copy: bool = False) -> Any:
        """Return the elements as a tensor of PyTorch, in the same memory unless `copy` is True.

        Read-only memory, such as that of a `jax.Array` or of a captured loop, is copied, because all tensors of PyTorch
        are writable.

        Raises:
            ContextError: PyTorch is not installed.
        """
        array = self._array.copy() if copy or not self._array.flags.writeable else self._array
        return _torch().from_numpy(array)

    @with_call_site
    def item(self) -> Any:
        """Return the only element as a number of Python.

        Raises:
            DefinitionError: The tensor has another number of elements.
        """
        if self.size != 1:
            raise DefinitionError("item() needs a tensor of one element", given=f"shape {self.shape}")
        return self._array.item()

    @with_call_site
    def __bool__(self) -> bool:
        if self.size != 1:
            raise DefinitionError(
                "the truth value of a tensor needs one element",
                given=f"shape {self.shape}",
                fix="reductions.max or reductions.min of the comparison, then .item()",
            )
        return bool(self._array.item())

    @with_call_site
    def __getitem__(self, index: Any) -> Tensor:
        entries = cast(tuple[Any, ...], index if isinstance(index, tuple) else (index,))
        key = tuple(_index(entry) for entry in entries)
        try:
            part = self._array[key]
        except (IndexError, ValueError) as error:
            raise _IndexError(str(error), given=short_repr(index), expected=f"an index of shape {self.shape}") from None
        return Tensor.of(np.asarray(part), kept_letters(self._layout, key, self.ndim))

    def __iter__(self) -> Iterator[Tensor]:
        if not self.ndim:
            raise ArgumentTypeError("a tensor without axes cannot be iterated over", fix=".item()")
        return (self[number] for number in range(self.shape[0]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._array, dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        # NumPy refuses to export read-only memory to libraries without DLPack 1.0.
        array = self._array if self._array.flags.writeable else self._array.copy()
        return array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def __repr__(self) -> str:
        return tensor_text("Tensor", self._array, self._layout, "cpu", str(self.dtype))


class Batch(Elementwise):
    """Samples of one element type that may differ in shape, from the data that `batch` and `as_batch` take.

    Args:
        tensors: A list with a sample per item, or an array whose first axis is that of the samples.
        dtype: Element type; by default that of the first sample.
        device: A hint; batches are in host memory.
        layout: Letters of the axes of a sample.
        copy: True to copy the data.
    """

    __slots__ = ("_samples",)
    # NumPy returns NotImplemented for `array + batch`, so that Python asks the batch.
    __array_ufunc__ = None

    @with_call_site
    def __init__(
        self, tensors: Any, dtype: Any = None, device: Any = None, layout: str | None = None, *, copy: bool = False
    ) -> None:
        made = (_conversion().batch if copy else _conversion().as_batch)(tensors, dtype, device, layout)
        self._samples = made.samples

    @classmethod
    def of(cls, samples: Samples) -> Self:
        """Return the batch of samples, as they are."""
        made = cls.__new__(cls)
        made._samples = samples  # noqa: SLF001  # of this class
        return made

    @property
    def samples(self) -> Samples:
        """The samples, as operators of `penstock.fn` take them."""
        return self._samples

    @property
    def batch_size(self) -> int:
        """Number of samples."""
        return len(self.samples)

    @property
    def shape(self) -> list[tuple[int, ...]]:
        """Shape of each sample."""
        return self.samples.shapes

    @property
    def ndim(self) -> int:
        """Number of axes of a sample."""
        return self.samples.ndim

    @property
    def dtype(self) -> DType:
        """Element type."""
        return element_type(self.samples.dtype)

    @property
    def layout(self) -> str | None:
        """Letters of the axes of a sample, or None."""
        return self.samples.layout or None

    @property
    def tensors(self) -> TensorSequence:
        """The samples, as a sequence of tensors."""
        return TensorSequence(self, range(self.batch_size))

    @property
    def slice(self) -> SampleSlice:
        """Indexing inside of each sample: `batch.slice[0, 2:]`."""
        return SampleSlice(self)

    def _copied(self) -> Batch:
        return Batch.of(Samples([sample.copy() for sample in self.samples], self.samples.layout))

    @with_call_site
    def torch(self, copy: bool | None = None, pad: bool = False) -> Any:
        """Return the samples as one tensor of PyTorch with a leading axis of samples.

        Args:
            copy: True for a copy; False if it must be the memory of the samples; None for a copy if needed.
            pad: If True, samples are padded with zeros to one shape.

        Raises:
            ContextError: PyTorch is not installed.
            DefinitionError: The samples differ in shape.
            UsageError: `copy` is False and the samples are separate arrays.
        """
        column = self.samples.column
        if copy is False and not isinstance(column, np.ndarray):
            raise UsageError("the samples are separate arrays, so one tensor is a copy", given="copy=False")
        return stack_samples(self, pad=pad).torch(bool(copy))

    @with_call_site
    def select(self, samples: Any) -> Any:
        """Return the sample of an index, or a batch of those of a slice or list.

        Raises:
            IndexError: An index is out of range.
        """
        if samples is Ellipsis:
            return self
        selected = self.tensors[samples]
        return selected if isinstance(selected, Tensor) else selected.as_batch()

    @with_call_site
    def __bool__(self) -> bool:
        raise ArgumentTypeError("a batch has no truth value", fix="a loop over its tensors")

    def __iter__(self) -> Iterator[Tensor]:
        return (Tensor.of(sample, self.samples.layout) for sample in self.samples)

    def __repr__(self) -> str:
        return batch_text("Batch", list(self.samples), self.layout or "", "cpu", str(self.dtype))


class TensorSequence(Sequence[Tensor]):
    """Samples of a batch as tensors, which are made when they are read.

    Args:
        batch: The batch.
        numbers: Numbers of the samples in the batch.

    >>> from penstock import dynamic as ndd
    >>> tensors = ndd.batch([[1], [2, 3], [4]]).tensors
    >>> len(tensors), tensors[-1].item(), tensors[[2, 0]].as_batch().shape
    (3, 4, [(1,), (1,)])
    """

    __slots__ = ("_batch", "_numbers")

    def __init__(self, batch: Batch, numbers: Sequence[int]) -> None:
        self._batch, self._numbers = batch, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice | list[int]) -> TensorSequence: ...
    @with_call_site
    def __getitem__(self, index: int | slice | list[int]) -> Tensor | TensorSequence:
        numbers = self._numbers
        try:
            if isinstance(index, slice):
                return TensorSequence(self._batch, numbers[index])
            if isinstance(index, list):
                return TensorSequence(self._batch, [numbers[one] for one in index])
            samples = self._batch.samples
            return Tensor.of(samples[numbers[index]], samples.layout)
        except IndexError:
            raise _IndexError("the batch has fewer samples", given=index, expected=f"below {len(self)}") from None

    # DALI's name.
    select = __getitem__

    def tolist(self) -> list[Tensor]:
        """Return the tensors as a list."""
        return list(self)

    def as_batch(self, copy: bool = False) -> Batch:
        """Return the tensors as a batch, in their memory unless `copy` is True."""
        arrays = [tensor.array.copy() if copy else tensor.array for tensor in self]
        return Batch.of(Samples(arrays, self._batch.samples.layout))


class SampleSlice:
    """Indexing of the samples of a batch. A bound may be a number, a tensor, or a batch with one number per sample."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    @with_call_site
    def __getitem__(self, index: Any) -> Batch:
        entries = cast(tuple[Any, ...], index if isinstance(index, tuple) else (index,))
        parts = [
            tensor[tuple(_bound_of(entry, row) for entry in entries)] for row, tensor in enumerate(self._batch.tensors)
        ]
        return Batch.of(Samples([part.array for part in parts], parts[0].layout))


def stack_samples(batch: Batch, *, pad: bool) -> Tensor:
    """Return the samples of a batch as one tensor, without a copy if they are one array.

    Raises:
        DefinitionError: They differ in shape, and `pad` is False.
    """
    samples = batch.samples
    layout = f"N{samples.layout}" if samples.layout else ""
    if isinstance(samples.column, np.ndarray):
        return Tensor.of(samples.column, layout)
    arrays = list(samples)
    if len(set(batch.shape)) > 1:
        if not pad:
            raise DefinitionError(
                "the samples differ in shape, so they are not one tensor",
                given=", ".join(map(str, dict.fromkeys(batch.shape))),
                fix="pad=True, or an operator such as resize",
            )
        full = tuple(map(max, zip(*batch.shape, strict=True)))
        arrays = [np.pad(a, [(0, e - s) for e, s in zip(full, a.shape, strict=True)]) for a in arrays]
    return Tensor.of(np.stack(arrays), layout)


def _conversion() -> Any:
    return importlib.import_module("penstock.dynamic.tensor_conversion")  # which imports this module


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise ContextError("PyTorch is not installed", given="torch()", fix="pip install torch") from None


class _IndexError(DefinitionError, IndexError):
    """An index does not fit a tensor."""


def _index(entry: Any) -> Any:
    if isinstance(entry, slice):
        return slice(*[None if x is None else _index(x) for x in (entry.start, entry.stop, entry.step)])
    if entry is Ellipsis or (isinstance(entry, int | np.integer) and not isinstance(entry, bool)):
        return cast(Any, entry)
    if isinstance(entry, Tensor) and entry.size == 1 and entry.array.dtype.kind in "iu":
        return entry.array.item()
    raise ArgumentTypeError(
        "tensors take integers, slices and ... as indices", given=f"{short_repr(entry)} of type {type(entry).__name__}"
    )


def _bound_of(entry: Any, row: int) -> Any:
    """Return an index for one sample."""
    if isinstance(entry, slice):
        return slice(*[_bound_of(bound, row) for bound in (entry.start, entry.stop, entry.step)])
    return entry.tensors[row] if isinstance(entry, Batch) else entry
