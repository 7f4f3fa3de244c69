"""Tensor lists: the batches that `Pipeline.run` returns, dense or ragged."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, cast

import numpy as np

from penstock.core import ONE_SHAPE_FIX, Array, Spec, user_call_site, with_call_site
from penstock.core.unsupported import refuse_attributes
from penstock.display.batch_text import batch_text
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph import Range, check_annotations
from penstock.pipeline.tensor import TensorCPU, TensorGPU, as_arrays, as_layout, same_size_dtype, write_to
from penstock.types import to_dali_type


class TensorList:
    """A batch of one output, a `TensorListCPU` or a `TensorListGPU`. Samples may differ in shape.

    Indexing and iteration return a `TensorCPU`, or a `TensorGPU` if the batch is on a device. If all samples have one
    shape, NumPy, JAX and users of DLPack accept the batch as an array.

    >>> batch = tensor_list(np.zeros((2, 3), np.uint8), Spec(np.dtype("uint8"), (3,)))
    >>> len(batch), batch.shape(), batch.as_array().shape, np.asarray(batch).shape
    (2, [(3,), (3,)], (2, 3), (2, 3))
    >>> batch[0].shape(), batch.at(0).shape
    ([3], (3,))
    """

    _tensor: type[TensorCPU | TensorGPU]

    def __init__(
        self, samples: Any, dtype: np.dtype[Any], axes: int, layout: str | None, origins: Callable[[int], str] | None
    ) -> None:
        self._samples, self._dtype, self._axes, self._origins = samples, dtype, axes, origins
        self._layout = as_layout(layout, axes)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_origins": None}  # they refer to the data set

    @property
    def _listed(self) -> bool:
        return isinstance(self._samples, list)

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> TensorCPU | TensorGPU:
        raise NotImplementedError

    def __iter__(self) -> Iterator[TensorCPU | TensorGPU]:
        return (self[index] for index in range(len(self)))

    def _row(self, index: Any) -> int:
        """Return the number of a sample from 0, of which origins are looked up, for one that may be negative."""
        if not hasattr(index, "__index__"):
            raise ArgumentTypeError(
                "a tensor list is indexed with the number of one sample",
                given=short_repr(index),
                expected="an integer",
                fix="tensors.as_array()[...] if the samples have one shape; [tensors[0], tensors[1]] otherwise",
                where=user_call_site(),
            )
        return index % len(self)

    def at(self, index: int) -> TensorCPU | TensorGPU:
        """Return sample number `index`, like indexing."""
        return self[index]

    def shape(self) -> list[tuple[int, ...]]:
        """Return the shape of each sample."""
        if self._listed:
            return [tuple(sample.shape) for sample in self._samples]
        return [tuple(self._samples.shape[1:])] * len(self)

    @property
    def ndim(self) -> int:
        """The number of axes of a sample."""
        return self._axes

    def layout(self) -> str:
        """Return the names of a sample's axes, or ""."""
        return self._layout

    @check_annotations
    def set_layout(self, layout: str | None) -> None:
        """Rename the axes of a sample.

        Raises:
            DefinitionError: A sample has another number of axes.
        """
        self._layout = as_layout(layout, self._axes)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type, equal to the `types.DALIDataType` of the same name."""
        return self._dtype

    def is_dense_tensor(self) -> bool:
        """Return True if all samples have the same shape."""
        return len(set(self.shape())) <= 1

    def as_cpu(self) -> TensorListCPU:
        """Return the batch in host memory."""
        raise NotImplementedError

    def asCPU(self) -> TensorListCPU:  # noqa: N802  # the name of `as_cpu` before DALI 0.22
        """Do the same as `as_cpu`."""
        return self.as_cpu()

    def as_array(self) -> Array:
        """Return one NumPy array with a leading axis of samples.

        Raises:
            DefinitionError: The samples differ in shape.
        """
        return np.asarray(self._dense())

    @check_annotations
    def as_reshaped_tensor(self, shape: Sequence[int]) -> TensorCPU | TensorGPU:
        """Return all elements of the batch as one array of another shape.

        Raises:
            DefinitionError: The samples differ in shape, or have another number of elements.
        """
        dense = self._dense()
        if math.prod(shape) != dense.size or min(shape, default=0) < 0:
            raise DefinitionError(
                "the new shape has another number of elements", given=f"shape {list(shape)}", expected=dense.shape
            )
        return self._tensor(dense.reshape(tuple(shape)), "")

    def as_tensor(self) -> TensorCPU | TensorGPU:
        """Return one array with a leading axis of samples, in the memory of the samples: host or device.

        Raises:
            DefinitionError: The samples differ in shape.
        """
        return self._tensor(self._dense(), self._layout and f"N{self._layout}")

    @with_call_site
    def copy_to_external(self, ptr: ctypes.c_void_p, *hints: Any, **more_hints: Any) -> None:
        """Write the samples one after another to an address of memory that has room for them.

        DALI's other arguments, for batches on its devices, are hints.

        Raises:
            DefinitionError: The device is not a CPU; JAX owns its memory.
        """
        del hints, more_hints
        write_to(self._samples, ptr)

    @with_call_site
    def _dense(self) -> Any:
        if not self.is_dense_tensor():
            raise DefinitionError(
                "the samples differ in shape, so they are no array",
                given=", ".join(map(str, dict.fromkeys(self.shape()))),
                fix=f"give them one shape ({ONE_SHAPE_FIX}), or take them one by one with .at(i)",
            )
        return np.stack(self._samples) if self._listed else self._samples

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._dense(), dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._dense().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._dense().__dlpack_device__()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} x {self._spec})"

    def __str__(self) -> str:
        """Return the values, dtype, layout and shapes, in DALI's form; large batches are summarized."""
        if not len(self):
            return repr(self)
        device = "cpu" if self._tensor is TensorCPU else "gpu"
        dtype = f"DALIDataType.{to_dali_type(self.dtype).name}"
        return batch_text(type(self).__name__, self._samples, self._layout, device, dtype)

    def _repr_html_(self) -> str:
        """Return a table and, of a batch in host memory, the first images, for notebooks."""
        from penstock.display.batch_html import MAX_SHOWN, batch_html  # noqa: PLC0415  # for notebooks alone

        first = self._samples[:MAX_SHOWN] if self._tensor is TensorCPU else ()
        return batch_html(type(self).__name__, first, len(self), self._spec)

    @property
    def _spec(self) -> Spec:
        return Spec(self._dtype, _common(self.shape()), self._layout)


class TensorListCPU(TensorList):
    """A batch in host memory.

    Args:
        samples: An array with a leading axis of samples, or a list of arrays of one dtype and number of axes.
        layout: Names of a sample's axes, or "".
        origins: Returns where a sample was read, given its number in the batch.

    Raises:
        ArgumentTypeError: NumPy cannot convert the samples to arrays.
        DefinitionError: The layout has another number of axes; the samples differ in dtype or number of axes.

    >>> ragged = TensorListCPU([np.zeros((2, 3)), np.zeros((4, 5))], "HW")
    >>> ragged.shape(), ragged.layout(), ragged.is_dense_tensor()
    ([(2, 3), (4, 5)], 'HW', False)
    """

    _tensor = TensorCPU

    @with_call_site
    def __init__(self, samples: Any, layout: str | None = "", origins: Callable[[int], str] | None = None) -> None:
        batch: Any
        if isinstance(samples, list | tuple):
            batch = as_arrays(cast(list[Any], samples))
            kinds = {(array.dtype, array.ndim) for array in batch}
        else:
            (batch,) = as_arrays([samples])
            if not batch.ndim:
                raise ArgumentTypeError("a batch has a leading axis of samples", given=short_repr(samples))
            kinds = {(batch.dtype, batch.ndim - 1)}
        if len(kinds) != 1:
            raise DefinitionError(
                "the samples of a batch have one dtype and one number of axes",
                given=", ".join(f"{dtype} with {axes} axes" for dtype, axes in kinds) or "no samples",
            )
        super().__init__(batch, *kinds.pop(), layout, origins)

    def __getitem__(self, index: int) -> TensorCPU:
        origins, at = self._origins, self._row(index)
        return TensorCPU(self._samples[index], self._layout, origins and functools.partial(origins, at))

    def as_cpu(self) -> TensorListCPU:
        """Return the batch itself, which is in host memory."""
        return self

    @with_call_site
    def data_ptr(self) -> int:
        """Return the address of the first element of the batch, whose samples are one after another.

        Raises:
            DefinitionError: The samples differ in shape.
        """
        self._samples = self._dense()
        return int(self._samples.ctypes.data)

    @with_call_site
    def reinterpret(self, new_type: Any) -> None:
        """Take the bytes of the elements as those of another dtype of the same size, in place.

        Raises:
            DefinitionError: The dtypes differ in size.
        """
        self._dtype = dtype = same_size_dtype(self._dtype, new_type)
        samples: Any = self._samples
        self._samples = [sample.view(dtype) for sample in samples] if self._listed else samples.view(dtype)

    def reset(self) -> None:
        """Remove all samples."""
        self._samples = self._samples[:0]

    @staticmethod
    @check_annotations
    def from_dlpack_list(
        list_of_objects: Sequence[Any], layout: str | None = None, contiguous: bool = False
    ) -> TensorListCPU:
        """Return a batch of arrays of other libraries, without a copy.

        Args:
            list_of_objects: Objects with ``__dlpack__``.
            layout: Names of a sample's axes.
            contiguous: True to copy the samples into one array if they have one shape.
        """
        batch = TensorListCPU([np.from_dlpack(item) for item in list_of_objects], layout)
        if contiguous and batch.is_dense_tensor():
            batch.data_ptr()
        return batch

    @staticmethod
    @check_annotations
    def broadcast(tensor: Any, num_samples: Annotated[int, Range(1, 2**31)]) -> TensorListCPU:
        """Return a batch that repeats one sample."""
        (array,) = as_arrays([tensor])
        layout = tensor.layout() if isinstance(tensor, TensorCPU) else ""
        return TensorListCPU(np.broadcast_to(array, (num_samples, *array.shape)), layout)


class TensorListGPU(TensorList):
    """A batch on a device of JAX, which may be a CPU.

    Args:
        samples: A `jax.Array` with a leading axis of samples.
        layout: Names of a sample's axes, or "".
        origins: See `TensorListCPU`.

    Raises:
        ArgumentTypeError: `samples` is not a `jax.Array`.
        DefinitionError: The layout has another number of axes.
    """

    _tensor = TensorGPU

    @with_call_site
    def __init__(self, samples: Any, layout: str | None = "", origins: Callable[[int], str] | None = None) -> None:
        if not getattr(samples, "ndim", 0) or not isinstance(getattr(samples, "dtype", None), np.dtype):
            raise ArgumentTypeError("a batch is an array with a leading axis of samples", given=short_repr(samples))
        super().__init__(samples, samples.dtype, samples.ndim - 1, layout, origins)

    def __getitem__(self, index: int) -> TensorGPU:
        origins, at = self._origins, self._row(index)
        return TensorGPU(self._samples[index], self._layout, origins and functools.partial(origins, at))

    def as_cpu(self) -> TensorListCPU:
        """Return the batch in host memory."""
        return TensorListCPU(np.asarray(self._samples), self._layout, self._origins)

    def __jax_array__(self) -> Any:
        return self._samples


def tensor_list(samples: Any, spec: Spec, origins: Callable[[int], str] | None = None) -> TensorList:
    """Return the tensor list of an output of a plan.

    Args:
        samples: An array with a leading axis of samples, a list of arrays, or a `jax.Array`.
        spec: Spec of a sample.
        origins: Returns where a sample was read, given its number in the batch.
    """
    on_host = isinstance(samples, list | np.ndarray)
    return (TensorListCPU if on_host else TensorListGPU)(samples, spec.layout, origins)


def _common(shapes: Sequence[tuple[int, ...]]) -> tuple[int | None, ...]:
    """Return the extent of each axis, or None if the shapes differ there."""
    return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True))


refuse_attributes(TensorList, "TensorListCPU")
