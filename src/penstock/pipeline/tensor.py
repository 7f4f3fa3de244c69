"""One sample of an output: an array with a layout, on the host or on a device."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, cast

import numpy as np

from penstock.core import Array, with_call_site
from penstock.core.dtypes import as_dtype
from penstock.core.unsupported import refuse_attributes
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph import check_annotations


class CallableShape(tuple[int, ...]):
    """Tuple of extents, as in NumPy, that can also be called, as in DALI.

    >>> shape = CallableShape((2, 3))
    >>> shape, shape()
    ((2, 3), [2, 3])
    """

    __slots__ = ()

    def __call__(self) -> list[int]:
        """Return the shape as a list."""
        return list(self)


class TensorCPU(Array):
    """One sample of an output: a NumPy array that also has DALI's `shape()`, `layout()` and `as_cpu()`.

    Args:
        array: Anything that NumPy converts to an array, without a copy if possible.
        layout: Names of its axes, or "".
        origin: Returns where it was read.

    >>> sample = TensorCPU(np.zeros((2, 3), np.uint8), "HW")
    >>> sample.shape(), sample.shape, sample.layout(), int(sample.max())
    ([2, 3], (2, 3), 'HW', 0)
    """

    _layout = ""
    _origin: Callable[[], str] | None = None

    @with_call_site
    def __new__(cls, array: Any, layout: str = "", origin: Callable[[], str] | None = None) -> Self:
        """Return a view of the array.

        Raises:
            ArgumentTypeError: NumPy cannot convert it to an array.
        """
        (value,) = as_arrays([array])
        result = value.view(cls)
        result._layout, result._origin = as_layout(layout, value.ndim), origin  # noqa: SLF001  # one class
        return result

    def copy(self, order: Any = "C") -> TensorCPU:
        """Return a copy of the sample. `order` is NumPy's memory layout."""
        # NumPy copies the elements of a subclass but not its attributes.
        result = super().copy(order)
        result._layout, result._origin = self._layout, self._origin  # noqa: SLF001  # one class
        return result

    @property
    def shape(self) -> CallableShape:  # pyright: ignore[reportIncompatibleMethodOverride]  # a tuple, too
        """The extents of its axes: a tuple; as in DALI, calling it returns a list."""
        return CallableShape(super().shape)

    def layout(self) -> str:
        """Return the names of its axes, or "". Results of computations have none."""
        return self._layout

    @check_annotations
    def set_layout(self, layout: str | None) -> None:
        """Rename its axes.

        Raises:
            DefinitionError: It has another number of axes.
        """
        self._layout = as_layout(layout, super().ndim)

    @check_annotations
    def get_property(self, key: str) -> Any:
        """Return its layout for the key "layout"; None for other keys."""
        return self._layout if key == "layout" else None

    def source_info(self) -> str:
        """Return the origin of the sample, like `fn.get_property`; "" if it is unknown."""
        return "" if self._origin is None else self._origin()

    def data_ptr(self) -> int:
        """Return the address of its first element."""
        return int(self.ctypes.data)

    @with_call_site
    def reinterpret(self, new_type: Any) -> None:
        """Take the bytes of its elements as those of another dtype of the same size, in place.

        Raises:
            DefinitionError: The dtypes differ in size.
        """
        dtype = same_size_dtype(self.dtype, new_type)
        # NumPy prefers a new view since 2.5, but a tensor of DALI changes in place.
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            self.dtype = dtype  # pyright: ignore[reportAttributeAccessIssue]  # NumPy's stubs know only the getter

    @with_call_site
    def copy_to_external(self, ptr: ctypes.c_void_p) -> None:
        """Write its elements to an address in host memory that has room for them."""
        write_to(self, ptr)

    def as_cpu(self) -> TensorCPU:
        """Return the sample itself, which is in host memory."""
        return self


class TensorGPU:
    """One sample of an output on a device, with DALI's methods and the attributes of the array.

    Args:
        array: The sample, a `jax.Array`.
        layout: Names of its axes, or "".
        origin: Returns where it was read.
    """

    def __init__(self, array: Any, layout: str = "", origin: Callable[[], str] | None = None) -> None:
        self._array = array
        self._layout = layout
        self._origin = origin

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_origin": None}  # it refers to the data set

    @property
    def shape(self) -> CallableShape:
        """The extents of its axes: a tuple; as in DALI, calling it returns a list."""
        return CallableShape(self._array.shape)

    def layout(self) -> str:
        """Return the names of its axes, or ""."""
        return self._layout

    def as_cpu(self) -> TensorCPU:
        """Return the sample in host memory."""
        return TensorCPU(self._array, self._layout, self._origin)

    def source_info(self) -> str:
        """Return the origin of the sample, like `fn.get_property`; "" if it is unknown."""
        return "" if self._origin is None else self._origin()

    @with_call_site
    def copy_to_external(self, ptr: ctypes.c_void_p, *hints: Any, **more_hints: Any) -> None:
        """Write its elements to an address if the device is a CPU. DALI's other arguments are hints.

        Raises:
            DefinitionError: The device is not a CPU; JAX owns its memory.
        """
        del hints, more_hints
        write_to(self._array, ptr)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._array, dtype, copy=copy)

    def __jax_array__(self) -> Any:
        return self._array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def __getattr__(self, name: str) -> Any:
        if name == "_array":  # not set yet: the instance is being copied or unpickled
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


def as_arrays(value: Sequence[Any]) -> list[Array]:
    """Convert values to NumPy arrays, without copies if possible.

    Raises:
        ArgumentTypeError: A value cannot be converted.
    """
    try:
        arrays = [np.asarray(item) for item in value]
    except Exception as error:  # a ragged list; objects of other libraries may raise anything
        raise ArgumentTypeError("a tensor is an array", given=short_repr(value)) from error
    objects = [array for array in arrays if array.dtype.hasobject]
    # In debug mode, None stands for a row that does not take the branch.
    if any(array.ndim or array.item() is not None for array in objects):
        raise ArgumentTypeError("a tensor is an array of numbers", given=short_repr(value))
    return arrays


def write_to(value: Any, address: ctypes.c_void_p) -> None:
    """Write an array, or arrays one after another, to an address in host memory.

    Args:
        value: A NumPy array, a list of them, or a `jax.Array`.
        address: Address of host memory with room for all of them.

    Raises:
        ArgumentTypeError: `address` is not an address.
        DefinitionError: The array is on a device that is not a CPU; JAX owns its memory.
    """
    if not isinstance(cast(object, address), ctypes.c_void_p) or not address.value:
        raise ArgumentTypeError(
            "copy_to_external writes to an address",
            given=short_repr(address),
            expected="ctypes.c_void_p(array.ctypes.data)",
        )
    if any(device.platform != "cpu" for device in (() if isinstance(value, list | np.ndarray) else value.devices())):
        raise DefinitionError(
            "JAX owns the memory of its devices, so addresses there are not written to",
            fix="as_cpu() before, or torch.from_dlpack(…), which copies nothing",
        )
    to = address.value
    for array in cast(Iterable[Any], value if isinstance(value, list) else [value]):
        # `memmove` copies one block of memory, while a view may have gaps or negative strides.
        data = np.ascontiguousarray(array)
        ctypes.memmove(to, data.ctypes.data, data.nbytes)
        to += data.nbytes


def same_size_dtype(dtype: np.dtype[Any], other: Any) -> np.dtype[Any]:
    """Return another dtype as which elements can be reinterpreted.

    Raises:
        DefinitionError: The dtypes differ in size.
    """
    result = as_dtype(other)
    if result.itemsize != dtype.itemsize:
        raise DefinitionError(
            "only a dtype of the same size can replace that of the elements",
            given=f"{dtype} as {result}",
            fix="view(dtype) of the array, which changes the last extent",
        )
    return result


def as_layout(layout: str | None, axes: int) -> str:
    """Return a layout for `axes` axes; "" for None.

    Raises:
        DefinitionError: It does not have one letter per axis.
    """
    if layout is None:
        return ""
    if not isinstance(cast(object, layout), str) or len(layout) not in (0, axes):
        raise DefinitionError(
            "a layout has a letter for each axis", given=short_repr(layout), expected=f"{axes} letters"
        )
    return layout


refuse_attributes(TensorCPU, "TensorCPU")
