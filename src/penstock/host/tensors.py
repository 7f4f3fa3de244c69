"""What `Pipeline.run` returns: the samples of one output, dense or not."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Self, cast

import numpy as np

from penstock.absent import refuse_attributes
from penstock.data.source import Array
from penstock.data.spec import Spec
from penstock.errors import ArgumentTypeError, DefinitionError, shown
from penstock.graph.accepts import checked
from penstock.graph.advice import Trouble, advice
from penstock.graph.kinds import Range
from penstock.where import located


class Extents(tuple[int, ...]):
    """A shape as NumPy gives it, which can also be called for, as in DALI.

    >>> shape = Extents((2, 3))
    >>> shape, shape()
    ((2, 3), [2, 3])
    """

    __slots__ = ()

    def __call__(self) -> list[int]:
        """The shape as a list."""
        return list(self)


class TensorCPU(Array):
    """One sample of an output: a NumPy array that also has DALI's `shape()`, `layout()` and `as_cpu()`.

    Args:
        array: what NumPy makes an array of, without a copy where it can.
        layout: the names of its axes, or "".
        origin: tells where it was read.

    >>> sample = TensorCPU(np.zeros((2, 3), np.uint8), "HW")
    >>> sample.shape(), sample.shape, sample.layout(), int(sample.max())
    ([2, 3], (2, 3), 'HW', 0)
    """

    _layout = ""
    _origin: Callable[[], str] | None = None

    @located
    def __new__(cls, array: Any, layout: str = "", origin: Callable[[], str] | None = None) -> Self:
        """A view of the array.

        Raises:
            ArgumentTypeError: NumPy makes no array of it.
        """
        (given,) = _arrays([array])
        made = given.view(cls)
        made.set_layout(layout)
        made._origin = origin  # noqa: SLF001  # one class
        return made

    @property
    def shape(self) -> Extents:  # pyright: ignore[reportIncompatibleMethodOverride]  # a tuple, too
        """The extents of its axes: a tuple, and called, as in DALI, a list."""
        return Extents(super().shape)

    def layout(self) -> str:
        """The names of its axes, or "": what is computed from a sample has none."""
        return self._layout

    @checked
    def set_layout(self, layout: str | None) -> None:
        """Give its axes other names.

        Raises:
            DefinitionError: it has another number of axes.
        """
        self._layout = _named(layout, super().ndim)

    @checked
    def get_property(self, key: str) -> Any:
        """Its "layout"; None for anything else."""
        return self._layout if key == "layout" else None

    def source_info(self) -> str:
        """Where it was read, as `fn.get_property` tells it; "" where that is not known."""
        return "" if self._origin is None else self._origin()

    def data_ptr(self) -> int:
        """The address of its first element."""
        return int(self.ctypes.data)

    def as_cpu(self) -> TensorCPU:
        """The same: it is in host memory."""
        return self


class TensorGPU:
    """One sample of an output that is on a device: what `TensorCPU` has of DALI's, and what else the array offers.

    Args:
        array: the sample, a `jax.Array`.
        layout: the names of its axes, or "".
    """

    def __init__(self, array: Any, layout: str = "") -> None:
        self._array = array
        self._layout = layout

    @property
    def shape(self) -> Extents:
        """The extents of its axes: a tuple, and called, as in DALI, a list."""
        return Extents(self._array.shape)

    def layout(self) -> str:
        """The names of its axes, or ""."""
        return self._layout

    def as_cpu(self) -> TensorCPU:
        """The same sample in host memory."""
        return TensorCPU(self._array, self._layout)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._array, dtype, copy=copy)

    def __jax_array__(self) -> Any:
        return self._array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def __getattr__(self, name: str) -> Any:
        if name == "_array":  # nothing to ask yet: the instance is being copied or unpickled
            raise AttributeError(name)
        return getattr(self._array, name)

    def __getitem__(self, index: Any) -> Any:
        return self._array[index]

    def __len__(self) -> int:
        return len(self._array)

    def __float__(self) -> float:
        return float(self._array)

    def __int__(self) -> int:
        return int(self._array)

    def __repr__(self) -> str:
        return f"TensorGPU({self._array!r}, layout={self._layout!r})"


class TensorList:
    """A batch of one output: samples that need not have the same shape. It is a `TensorListCPU` or a `TensorListGPU`.

    Indexing and iteration give a `TensorCPU` each, or a `TensorGPU` where the batch is on a device. Where all samples
    have one shape, NumPy, JAX and whatever knows DLPack take the batch for an array.

    >>> batch = tensor_list(np.zeros((2, 3), np.uint8), Spec(np.dtype("uint8"), (3,)))
    >>> len(batch), batch.shape(), batch.as_array().shape, np.asarray(batch).shape
    (2, [(3,), (3,)], (2, 3), (2, 3))
    >>> batch[0].shape(), batch.at(0).shape
    ([3], (3,))
    """

    _samples: Any
    _dtype: np.dtype[Any]
    _axes: int
    _layout: str
    _origins: Callable[[int], str] | None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_origins": None}  # which know the data set

    @property
    def _listed(self) -> bool:
        return isinstance(self._samples, list)

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> TensorCPU | TensorGPU:
        raise NotImplementedError

    def __iter__(self) -> Iterator[TensorCPU | TensorGPU]:
        return (self[index] for index in range(len(self)))

    def at(self, index: int) -> Any:
        """Sample number `index`, as the array that it is."""
        return self._samples[index]

    def shape(self) -> list[tuple[int, ...]]:
        """The shape of each sample."""
        if self._listed:
            return [tuple(sample.shape) for sample in self._samples]
        return [tuple(self._samples.shape[1:])] * len(self)

    @property
    def ndim(self) -> int:
        """The number of axes of a sample."""
        return self._axes

    def layout(self) -> str:
        """The names of a sample's axes, or ""."""
        return self._layout

    @checked
    def set_layout(self, layout: str | None) -> None:
        """Give the axes of a sample other names.

        Raises:
            DefinitionError: a sample has another number of axes.
        """
        self._layout = _named(layout, self._axes)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type; it is equal to the `types.DALIDataType` of the same name."""
        return self._dtype

    def is_dense_tensor(self) -> bool:
        """Whether all samples have one shape."""
        return len(set(self.shape())) <= 1

    def as_cpu(self) -> TensorListCPU:
        """The same batch in host memory."""
        raise NotImplementedError

    def asCPU(self) -> TensorListCPU:  # noqa: N802  # the name of `as_cpu` before DALI 0.22
        """The same as `as_cpu`."""
        return self.as_cpu()

    def as_array(self) -> Array:
        """One NumPy array with a leading axis of samples.

        Raises:
            DefinitionError: the samples differ in shape.
        """
        return np.asarray(self._dense())

    @checked
    def as_reshaped_tensor(self, shape: Sequence[int]) -> TensorCPU | TensorGPU:
        """All elements of the batch as one array of another shape.

        Raises:
            DefinitionError: the samples differ in shape, or have another number of elements.
        """
        dense = self._dense()
        if math.prod(shape) != dense.size or min(shape, default=0) < 0:
            raise DefinitionError("a tensor of another size", given=f"shape {list(shape)}", expected=dense.shape)
        return self._one(dense.reshape(tuple(shape)), "")

    def as_tensor(self) -> TensorCPU | TensorGPU:
        """One array with a leading axis of samples, where the samples are: host or device.

        Raises:
            DefinitionError: the samples differ in shape.
        """
        return self._one(self._dense(), self._layout and f"N{self._layout}")

    def _one(self, array: Any, layout: str) -> TensorCPU | TensorGPU:
        raise NotImplementedError

    @located
    def _dense(self) -> Any:
        if not self.is_dense_tensor():
            raise DefinitionError(
                "the samples differ in shape, so they are no array",
                given=", ".join(map(str, dict.fromkeys(self.shape()))),
                fix=f"give them one shape ({advice(Trouble.RAGGED)}), or take them one by one with .at(i)",
            )
        return np.stack(self._samples) if self._listed else self._samples

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._dense(), dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._dense().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._dense().__dlpack_device__()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} x {Spec(self._dtype, _common(self.shape()), self._layout)})"


class TensorListCPU(TensorList):
    """A batch in host memory.

    Args:
        samples: an array with a leading axis of samples, or a list of arrays of one dtype and number of axes.
        layout: the names of a sample's axes, or "".
        origins: tells where a sample was read, given its number in the batch.

    Raises:
        ArgumentTypeError: NumPy makes no array of the samples.
        DefinitionError: the layout has another number of axes; the samples differ in dtype or number of axes.

    >>> ragged = TensorListCPU([np.zeros((2, 3)), np.zeros((4, 5))], "HW")
    >>> ragged.shape(), ragged.layout(), ragged.is_dense_tensor()
    ([(2, 3), (4, 5)], 'HW', False)
    """

    @located
    def __init__(self, samples: Any, layout: str | None = "", origins: Callable[[int], str] | None = None) -> None:
        self._origins = origins
        kinds: set[tuple[np.dtype[Any], int]]
        if isinstance(samples, list | tuple):
            self._samples = arrays = _arrays(cast(list[Any], samples))
            kinds = {(array.dtype, array.ndim) for array in arrays}
        else:
            (array,) = _arrays([samples])
            self._samples = array
            if not array.ndim:
                raise ArgumentTypeError("a batch has a leading axis of samples", given=shown(samples))
            kinds = {(array.dtype, array.ndim - 1)}
        if len(kinds) != 1:
            raise DefinitionError(
                "the samples of a batch have one dtype and one number of axes",
                given=", ".join(f"{dtype} with {axes} axes" for dtype, axes in kinds) or "no samples",
            )
        self._dtype, self._axes = kinds.pop()
        self._layout = _named(layout, self._axes)

    def __getitem__(self, index: int) -> TensorCPU:
        origins, at = self._origins, index % len(self)
        return TensorCPU(self._samples[index], self._layout, origins and functools.partial(origins, at))

    def as_cpu(self) -> TensorListCPU:
        """The same: it is in host memory."""
        return self

    def _one(self, array: Any, layout: str) -> TensorCPU:
        return TensorCPU(array, layout)

    @staticmethod
    @checked
    def broadcast(tensor: Any, num_samples: Annotated[int, Range(1, 2**31)]) -> TensorListCPU:
        """A batch that has one sample several times."""
        (array,) = _arrays([tensor])
        layout = tensor.layout() if isinstance(tensor, TensorCPU) else ""
        return TensorListCPU(np.broadcast_to(array, (num_samples, *array.shape)), layout)


class TensorListGPU(TensorList):
    """A batch on a device of JAX, which may be a CPU.

    Args:
        samples: a `jax.Array` with a leading axis of samples.
        layout: the names of a sample's axes, or "".
        origins: as for `TensorListCPU`.

    Raises:
        ArgumentTypeError: it is no such array.
        DefinitionError: the layout has another number of axes.
    """

    @located
    def __init__(self, samples: Any, layout: str | None = "", origins: Callable[[int], str] | None = None) -> None:
        if not getattr(samples, "ndim", 0) or not isinstance(getattr(samples, "dtype", None), np.dtype):
            raise ArgumentTypeError("a batch is an array with a leading axis of samples", given=shown(samples))
        self._origins = origins
        self._samples = samples
        self._dtype, self._axes = samples.dtype, samples.ndim - 1
        self._layout = _named(layout, self._axes)

    def __getitem__(self, index: int) -> TensorGPU:
        return TensorGPU(self._samples[index], self._layout)

    def as_cpu(self) -> TensorListCPU:
        """The same batch in host memory."""
        return TensorListCPU(np.asarray(self._samples), self._layout, self._origins)

    def _one(self, array: Any, layout: str) -> TensorGPU:
        return TensorGPU(array, layout)

    def __jax_array__(self) -> Any:
        return self._samples


def tensor_list(samples: Any, spec: Spec, origins: Callable[[int], str] | None = None) -> TensorList:
    """An output of a plan as what users get of it.

    Args:
        samples: an array with a leading axis of samples, or a list of arrays; or a `jax.Array`.
        spec: what the plan says of a sample.
        origins: tells where a sample was read, given its number in the batch.
    """
    on_host = isinstance(samples, list | np.ndarray)
    return (TensorListCPU if on_host else TensorListGPU)(samples, spec.layout, origins)


def _arrays(given: Sequence[Any]) -> list[Array]:
    """What NumPy makes arrays of, without copies where it can.

    Raises:
        ArgumentTypeError: it makes none of one.
    """
    try:
        return [np.asarray(each) for each in given]
    except Exception as error:  # a ragged list, or whatever an object of somebody else's raises
        raise ArgumentTypeError("a tensor is an array", given=shown(given)) from error


def _named(layout: str | None, axes: int) -> str:
    if layout is None:
        return ""
    if not isinstance(cast(object, layout), str) or len(layout) not in (0, axes):
        raise DefinitionError("a layout has a letter for each axis", given=shown(layout), expected=f"{axes} letters")
    return layout


def _common(shapes: Sequence[tuple[int, ...]]) -> tuple[int | None, ...]:
    """The extents that all shapes have, None where they differ."""
    return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True))


refuse_attributes(TensorCPU, "TensorCPU")
refuse_attributes(TensorList, "TensorListCPU")
