"""A value that is the same for every sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from penstock.dtypes import DALIDataType, as_dtype
from penstock.errors import ArgumentTypeError, shown
from penstock.where import located, user_line


@dataclass(frozen=True, eq=False)
class Constant:
    """A value that is the same for every sample, with its dtype.

    A bare Python number in a definition counts as int32, float32 or bool, as in DALI; `Constant` says otherwise, in an
    argument or by the method that has a type's name: ``Constant(3).uint8()``.

    Args:
        value: a number, a (nested) list of numbers or an array; the shape is that of one sample.
        dtype: the element type; None gives 32 bits to what has 64, as Python's numbers and lists have, and keeps an
            array's own else; also that of NumPy's numbers, where no device is given: ``np.int64(3)`` is an int64.
        shape: the shape of a sample: `value` has as many numbers, or one that is repeated. None: that of `value`.
        layout: the names of the axes, such as "HWC"; empty where they have none.
        device: a placement hint, "cpu" or "gpu".
    """

    value: Any
    dtype: Any = None
    shape: int | Sequence[int] | None = None
    layout: str | None = ""
    device: str | None = None

    def __post_init__(self) -> None:
        """Check the texts.

        Raises:
            ArgumentTypeError: one of them is none.
        """
        for name, given in (("layout", self.layout), ("device", self.device)):
            if not isinstance(cast(Any, given), str | None):
                raise ArgumentTypeError(f"a constant's {name} is a text", given=shown(given), where=user_line())

    @located
    def array(self) -> np.ndarray[Any, Any]:
        """The value as an array of its dtype and shape.

        Raises:
            ArgumentTypeError: the value is no numbers, or the shape has another number of elements.

        >>> Constant([1, 2]).array().dtype, Constant(7, shape=2).float16().array()
        (dtype('int32'), array([7., 7.], dtype=float16))
        """
        try:
            array = np.asarray(self.value)
        except Exception as error:  # a ragged list, or whatever an object of somebody else's raises
            raise ArgumentTypeError("a constant holds numbers", given=shown(self.value)) from error
        if self.dtype is not None:
            array = _saturated(array, as_dtype(self.dtype))
        elif self.shape is not None or self.device is not None or array.ndim or not isinstance(self.value, _OWN):
            array = narrowed(array)
        if self.shape is None:
            return array
        try:
            return np.broadcast_to(array.reshape(()), self.shape) if array.size == 1 else array.reshape(self.shape)
        except (TypeError, ValueError):
            raise ArgumentTypeError(
                "a constant of another shape", given=f"{array.size} numbers", expected=f"shape {shown(self.shape)}"
            ) from None

    def _as(self, dtype: DALIDataType) -> Constant:
        return replace(self, dtype=dtype)

    def bool(self) -> Constant:
        """The same as bool."""
        return self._as(DALIDataType.BOOL)

    def int8(self) -> Constant:
        """The same as int8."""
        return self._as(DALIDataType.INT8)

    def int16(self) -> Constant:
        """The same as int16."""
        return self._as(DALIDataType.INT16)

    def int32(self) -> Constant:
        """The same as int32."""
        return self._as(DALIDataType.INT32)

    def int64(self) -> Constant:
        """The same as int64."""
        return self._as(DALIDataType.INT64)

    def uint8(self) -> Constant:
        """The same as uint8."""
        return self._as(DALIDataType.UINT8)

    def uint16(self) -> Constant:
        """The same as uint16."""
        return self._as(DALIDataType.UINT16)

    def uint32(self) -> Constant:
        """The same as uint32."""
        return self._as(DALIDataType.UINT32)

    def uint64(self) -> Constant:
        """The same as uint64."""
        return self._as(DALIDataType.UINT64)

    def float16(self) -> Constant:
        """The same as float16."""
        return self._as(DALIDataType.FLOAT16)

    def float32(self) -> Constant:
        """The same as float32."""
        return self._as(DALIDataType.FLOAT)

    def float64(self) -> Constant:
        """The same as float64."""
        return self._as(DALIDataType.FLOAT64)

    def __bool__(self) -> bool:
        return bool(self.array())

    def __int__(self) -> int:
        return int(self.array())

    def __float__(self) -> float:
        return float(self.array())


_OWN = (np.ndarray, np.integer)
"""Numbers of these keep their own type."""


def narrowed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Numbers of 64 bits with 32; others as they are.

    Raises:
        ArgumentTypeError: an integer does not fit.
    """
    if array.dtype.kind not in "iuf" or array.dtype.itemsize != 8:
        return array
    narrow = np.dtype(f"{array.dtype.kind}4")
    if narrow.kind in "iu" and array.size and not np.array_equal(array, array.astype(narrow)):
        raise ArgumentTypeError(
            f"a whole number beyond {narrow}",
            given=f"{array.min()} to {array.max()}",
            fix=f"dtype=types.{array.dtype.name.upper()}",
        )
    return array.astype(narrow)


def _saturated(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The numbers in another type: for integers rounded, halves away from zero, and brought within its limits."""
    if dtype.kind in "iu" and array.dtype.kind in "iuf":
        limits = np.iinfo(dtype)
        whole = np.copysign(np.floor(np.abs(array) + 0.5), array) if array.dtype.kind == "f" else array
        array = np.asarray(np.clip(whole.astype(object), limits.min, limits.max))  # Python's integers do not wrap
    return array.astype(dtype)
