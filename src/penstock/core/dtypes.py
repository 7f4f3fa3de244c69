"""The element types of values: DALI's, NumPy's, and what names them."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from penstock.core.call_site import user_call_site, with_call_site
from penstock.errors import ArgumentTypeError, dali_object_hint, did_you_mean, short_repr


class DALIDataType(IntEnum):
    """The element types of a value. The integers are DALI's, so that stored configurations keep their meaning.

    >>> DALIDataType.FLOAT.numpy
    dtype('float32')
    """

    NO_TYPE = -1
    UINT8 = 0
    UINT16 = 1
    UINT32 = 2
    UINT64 = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    FLOAT16 = 8
    FLOAT = 9
    FLOAT64 = 10
    BOOL = 11
    STRING = 12
    FEATURE = 17
    IMAGE_TYPE = 20
    DATA_TYPE = 21
    INTERP_TYPE = 22
    TENSOR_LAYOUT = 23
    PYTHON_OBJECT = 24

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of the same name and width.

        Raises:
            TypeError: it is the type of an argument of DALI's, and no value of a pipeline has it.
        """
        if self not in _NUMERIC:
            raise TypeError(self.name)
        return np.dtype({"FLOAT": "float32", "BOOL": "bool"}.get(self.name, self.name.lower()))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The same, under the name by which NumPy looks for it: its dtypes are equal to those of DALI.

        >>> np.dtype("float32") == DALIDataType.FLOAT, np.dtype("int8") == DALIDataType.STRING
        (True, False)
        """
        if self not in _NUMERIC:
            raise AttributeError(f"{self.name} is no dtype")  # so that NumPy's comparison is False
        return self.numpy

    def __hash__(self) -> int:
        """That of the equal dtype, so that a dictionary by types is one by the dtypes of batches, too.

        A type is equal to its number as well, as in DALI, but no dictionary by numbers: dtypes hash otherwise.

        >>> {DALIDataType.FLOAT: 4, DALIDataType.INT8: 1}[np.dtype("float32")]
        4
        """
        return hash(self.numpy if self in _NUMERIC else self.name)

    def __str__(self) -> str:
        return f"DALIDataType.{self.name}"


_NUMERIC = tuple(kind for kind in DALIDataType if 0 <= kind <= DALIDataType.BOOL)
"""The types that values of a pipeline have."""

_VALUES: Any = (bool, np.generic, np.ndarray, list, tuple, dict)
"""What is no data type, though it is a number, has one, or NumPy makes one of records of it."""


@with_call_site
def as_dtype(dtype: Any) -> np.dtype[Any]:
    """The NumPy dtype that `dtype` names: a `DALIDataType`, its number, or whatever NumPy takes as a dtype.

    Raises:
        ArgumentTypeError: it names none.

    >>> as_dtype(DALIDataType.UINT8), as_dtype("float16")
    (dtype('uint8'), dtype('float16'))
    """
    try:
        if dtype is None or isinstance(dtype, _VALUES):
            raise TypeError  # NumPy would take it for float64, or for that of a value
        found = DALIDataType(dtype).numpy if isinstance(dtype, int) else np.dtype(dtype)
        if found.names is not None or found.subdtype is not None or found.kind in "OSUMm" or not found.itemsize:
            raise TypeError
    except Exception:  # noqa: BLE001  # NumPy looks into the object, which may raise anything
        raise ArgumentTypeError(
            "no such data type",
            given=short_repr(dtype),
            expected=f"types.{', types.'.join(kind.name for kind in _NUMERIC)}, or a NumPy dtype",
            fix=did_you_mean(dtype, DALIDataType.__members__) if isinstance(dtype, str) else dali_object_hint(dtype),
        ) from None
    return found


def to_numpy_type(dali_type: Any) -> Any:
    """The NumPy scalar type of a `DALIDataType`, or of its number.

    Raises:
        ArgumentTypeError: NumPy has none.

    >>> to_numpy_type(DALIDataType.FLOAT)
    <class 'numpy.float32'>
    """
    return as_dtype(dali_type).type


def to_dali_type(framework_type: Any) -> DALIDataType:
    """The `DALIDataType` of another library's type, by its name; "float" is float32, as in DALI.

    Raises:
        ArgumentTypeError: there is none of that name.

    >>> to_dali_type("uint8"), to_dali_type(np.float32), to_dali_type("torch.half")
    (<DALIDataType.UINT8: 0>, <DALIDataType.FLOAT: 9>, <DALIDataType.FLOAT16: 8>)
    """
    try:
        name = framework_type.__qualname__ if isinstance(framework_type, type) else str(framework_type)
        name = name.removeprefix("torch.")
        dtype = as_dtype({"float": "float32", "boolean": "bool"}.get(name, name))
        return next(kind for kind in _NUMERIC if kind.numpy == dtype)
    except Exception:  # noqa: BLE001  # a user's object may raise anything
        raise ArgumentTypeError(
            "no such data type", given=short_repr(framework_type), expected="a type of numbers", where=user_call_site()
        ) from None
