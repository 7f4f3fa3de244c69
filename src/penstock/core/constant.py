"""Constants: values that are the same for every sample."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import partialmethod
from typing import Any, cast

import numpy as np

from penstock.core.call_site import with_call_site
from penstock.core.dtypes import DALIDataType, as_dtype, is_float, to_dali_type
from penstock.errors import ArgumentTypeError, dali_object_hint, did_you_mean, short_repr


class Constant:
    """Value that is the same for every sample, with its dtype.

    A bare Python number in a definition is an int32, float32 or bool, as in DALI. `Constant` sets another dtype, with
    an argument or with a method: ``Constant(3).uint8()``. As in DALI, a constant that is one number has a `value`, a
    `dtype` and no `shape`; all others work like nodes.

    Args:
        value: A number, a (nested) list of numbers, or an array of the shape of one sample.
        dtype: The element type. By default, 64-bit Python numbers, lists and arrays are narrowed to 32 bits, and other
            arrays and NumPy's scalars keep their dtype: ``np.int64(3)`` is an int64. Converting to integers truncates
            a single float, and rounds floats in lists and arrays.
        shape: The shape of a sample; that of `value` by default. `value` has as many elements, or one to repeat.
        layout: The names of the axes, such as "HWC"; empty if they have none.
        device: A placement hint, "cpu" or "gpu". With it or with a layout, a number is an array without axes.
        **hints: "name", "preserve" or "bytes_per_sample_hint". They have no effect.

    Raises:
        ArgumentTypeError: `value` is not a number, list or array, or an argument is unknown or of a wrong type.
    """

    @with_call_site
    def __init__(
        self,
        value: Any,
        dtype: Any = None,
        shape: int | Sequence[int] | None = None,
        layout: str | None = None,
        device: str | None = None,
        **hints: Any,
    ) -> None:
        for name, argument in (("layout", layout), ("device", device)):
            if not isinstance(cast(Any, argument), str | None):
                raise ArgumentTypeError(f"a constant's {name} is a string", given=short_repr(argument))
        for name in hints:
            if name not in _HINTS:
                raise ArgumentTypeError(f"a constant has no argument {name!r}", fix=did_you_mean(name, _HINTS))
        self.value, self.dtype, self.layout, self.device = snapshot(value), dtype, layout or "", device
        self._extents, self._hints = shape, hints
        bare = (layout, device) == (None, None) and not hints and _shape(shape) in ((), (1,))
        self.is_number: bool = bare and not isinstance(value, list | tuple | Enum) and not _axes(value)
        """True for DALI's scalar constants: one number, without an array's attributes."""
        if self.is_number:
            self.value, self.dtype = _number(value, dtype)
            self._has_dtype = dtype is not None or hasattr(cast(Any, value), "dtype")

    @with_call_site
    def array(self) -> np.ndarray[Any, Any]:
        """Return the value as an array of its dtype and shape.

        Raises:
            ArgumentTypeError: The value is not numeric, or the shape has another number of elements.

        >>> Constant([1, 2]).array().dtype, Constant(7, shape=2).float16().array()
        (dtype('int32'), array([7., 7.], dtype=float16))
        """
        try:
            array = np.asarray(self.value)
        except Exception as error:  # a ragged list, or any error of a user's object
            raise ArgumentTypeError("a constant holds numbers", given=short_repr(self.value)) from error
        if self.is_number:
            return _saturated(array, as_dtype(self.dtype)) if self._has_dtype else narrowed(array)
        array = narrowed(array) if self.dtype is None else _saturated(array, as_dtype(self.dtype))
        if self._extents is None:
            return array
        try:
            return (
                np.broadcast_to(array.reshape(()), self._extents) if array.size == 1 else array.reshape(self._extents)
            )
        except (TypeError, ValueError):
            raise ArgumentTypeError(
                "the constant does not fit its shape",
                given=f"{array.size} numbers",
                expected=f"shape {short_repr(self._extents)}",
            ) from None

    def _as(self, dtype: DALIDataType) -> Constant:
        if self.is_number:
            return Constant(self.value, dtype)
        return Constant(self.value, dtype, self._extents, self.layout, self.device, **self._hints)

    # Methods without arguments that return the constant with another dtype, as in DALI.
    bool = partialmethod(_as, DALIDataType.BOOL)
    int8 = partialmethod(_as, DALIDataType.INT8)
    int16 = partialmethod(_as, DALIDataType.INT16)
    int32 = partialmethod(_as, DALIDataType.INT32)
    int64 = partialmethod(_as, DALIDataType.INT64)
    uint8 = partialmethod(_as, DALIDataType.UINT8)
    uint16 = partialmethod(_as, DALIDataType.UINT16)
    uint32 = partialmethod(_as, DALIDataType.UINT32)
    uint64 = partialmethod(_as, DALIDataType.UINT64)
    float16 = partialmethod(_as, DALIDataType.FLOAT16)
    float32 = partialmethod(_as, DALIDataType.FLOAT)
    float64 = partialmethod(_as, DALIDataType.FLOAT64)

    def __bool__(self) -> bool:
        return bool(self._only("biu"))

    def __int__(self) -> int:
        return int(self._only("biu"))

    def __float__(self) -> float:
        return float(self._only("f"))

    @with_call_site
    def _only(self, kinds: str) -> Any:
        array = np.empty((), as_dtype(self.dtype)) if self.is_number else self.array()
        kind = "f" if is_float(array.dtype) else array.dtype.kind
        if kind not in kinds or array.size != 1:
            fix = "call float32() first" if kinds == "f" else "call bool() or int32() first"
            raise ArgumentTypeError("the constant cannot be converted", given=repr(self), fix=fix)
        return self.value if self.is_number else array.item()

    __hash__ = object.__hash__

    def __str__(self) -> str:
        return f"{self.value}:{self.dtype}" if self.is_number else repr(self)

    def __repr__(self) -> str:
        return str(self.value) if self.is_number else f"Constant({short_repr(self.value)})"


# Dtypes of bare Python numbers, as in DALI.
_PLAIN: dict[type, DALIDataType] = {bool: DALIDataType.BOOL, int: DALIDataType.INT32, float: DALIDataType.FLOAT}
# Arguments of DALI's operators that do not change a constant.
_HINTS = ("name", "preserve", "bytes_per_sample_hint")


def _shape(shape: Any) -> tuple[Any, ...]:
    try:
        return () if shape is None else tuple(shape)
    except TypeError:
        return (shape,)


def _axes(value: Any) -> int:
    try:
        return np.ndim(value)
    except Exception as error:  # any error of a user's object
        raise ArgumentTypeError("a constant holds numbers", given=short_repr(value)) from error


def _number(value: Any, dtype: Any) -> tuple[Any, DALIDataType]:
    """Return a number as a Python int, float or bool, and its dtype."""
    own = np.asarray(value)
    number = cast(Any, own).item()
    if type(number) not in _PLAIN:
        raise ArgumentTypeError("a constant holds numbers", given=short_repr(value), fix=dali_object_hint(value))
    if dtype is None and not hasattr(value, "dtype"):
        return number, _PLAIN[type(number)]
    result = to_dali_type(own.dtype if dtype is None else as_dtype(dtype))
    kind = float if is_float(result.numpy) else bool if result is DALIDataType.BOOL else int
    try:
        return kind(number), result
    except (ValueError, OverflowError) as error:
        raise ArgumentTypeError(
            "the constant's dtype cannot hold its value", given=short_repr(value), expected=result.name
        ) from error


def snapshot(value: Any) -> Any:
    """Return a copy of a list, tuple or array with copies of those in it; other values as they are.

    Users may change a list or array after they have passed it to an operator or a constant.
    """
    if isinstance(value, list):
        return [snapshot(item) for item in cast(list[Any], value)]
    if type(value) is tuple:  # not a named tuple
        return tuple([snapshot(item) for item in cast(tuple[Any, ...], value)])
    return np.array(cast(Any, value)) if isinstance(value, np.ndarray) else value


def narrowed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Convert 64-bit numbers to 32 bits. Returns other arrays unchanged.

    Raises:
        ArgumentTypeError: An integer does not fit.
    """
    if array.dtype.kind not in "iuf" or array.dtype.itemsize != 8:
        return array
    narrow = np.dtype(f"{array.dtype.kind}4")
    if narrow.kind in "iu" and array.size and not np.array_equal(array, array.astype(narrow)):
        raise ArgumentTypeError(
            f"an integer does not fit into {narrow}",
            given=f"{array.min()} to {array.max()}",
            fix=f"dtype=types.{array.dtype.name.upper()}",
        )
    return array.astype(narrow)


def _saturated(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Convert numbers to another dtype. For integers and bool, round halves away from zero and saturate, like DALI."""
    if dtype.kind == "b" and is_float(array.dtype):
        return ~(np.abs(array) < 0.5)
    if dtype.kind in "iu" and array.dtype.kind in "iuf":
        limits = np.iinfo(dtype)
        whole = np.copysign(np.floor(np.abs(array) + 0.5), array) if array.dtype.kind == "f" else array
        # Python's integers, because the limits of uint64 and int64 have no common NumPy dtype.
        array = np.asarray(np.clip(whole.astype(object), limits.min, limits.max))
    return array.astype(dtype)
