"""Element types: DALI's, NumPy's, and their names."""

from enum import IntEnum
from importlib import import_module
from typing import Any

import numpy as np

from penstock.core.call_site import with_call_site
from penstock.errors import ArgumentTypeError, dali_object_hint, did_you_mean, short_repr


class DALIDataType(IntEnum):
    """Element types. The integers are DALI's, so that stored configurations keep their meaning.

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
    # DALI does not have this type; its numbers are far below.
    BFLOAT16 = 1000

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of the same name and width.

        Raises:
            TypeError: The type is one of DALI's argument types, which values cannot have.
        """
        if self not in _NUMERIC:
            raise TypeError(self.name)
        if self is DALIDataType.BFLOAT16:
            return _bfloat16()
        return np.dtype({"FLOAT": "float32", "BOOL": "bool"}.get(self.name, self.name.lower()))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype, in the attribute that NumPy reads when it compares dtypes.

        >>> np.dtype("float32") == DALIDataType.FLOAT, np.dtype("int8") == DALIDataType.STRING
        (True, False)
        """
        if self not in _NUMERIC:
            # NumPy takes this error as "not equal".
            raise AttributeError(f"{self.name} is not a dtype")
        return self.numpy

    def __hash__(self) -> int:
        """Return the hash of the equal NumPy dtype, so that a dictionary with types as keys finds dtypes of batches.

        A type is also equal to its number, as in DALI, but does not hash like it.

        >>> {DALIDataType.FLOAT: 4, DALIDataType.INT8: 1}[np.dtype("float32")]
        4
        """
        return hash(self.numpy if self in _NUMERIC else self.name)

    def __str__(self) -> str:
        return f"DALIDataType.{self.name}"


# The types that values of a pipeline can have.
_NUMERIC = (*(kind for kind in DALIDataType if 0 <= kind <= DALIDataType.BOOL), DALIDataType.BFLOAT16)

# The same for messages.
DTYPES_IN_WORDS = f"types.{', types.'.join(kind.name for kind in _NUMERIC)}, or a NumPy dtype"

# `np.dtype` accepts these, as numbers of types, by their `dtype`, or as descriptions of records.
_VALUES: Any = (bool, np.generic, np.ndarray, list, tuple, dict)


def _bfloat16() -> np.dtype[Any]:
    # ml_dtypes takes 10 ms to import. Programs that compute with bfloat16 import JAX, which imports it.
    return np.dtype(import_module("ml_dtypes").bfloat16)


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Return True for the bfloat16 of JAX and ml_dtypes, which NumPy reports as kind "V".

    >>> is_bfloat16(DALIDataType.BFLOAT16.numpy), is_bfloat16(np.dtype("float16"))
    (True, False)
    """
    return dtype.kind == "V" and dtype.name == "bfloat16"


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return True for floating-point types, including bfloat16."""
    return dtype.kind == "f" or is_bfloat16(dtype)


def _is_value(dtype: Any) -> bool:
    return hasattr(dtype, "shape") and not isinstance(dtype, type | np.dtype)


@with_call_site
def as_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of a `DALIDataType`, of its number, or of anything that NumPy accepts as a dtype.

    Raises:
        ArgumentTypeError: The dtype does not exist, or cannot be the dtype of samples.

    >>> as_dtype(DALIDataType.UINT8), as_dtype("float16")
    (dtype('uint8'), dtype('float16'))
    """
    try:
        # NumPy would return float64 for None, and the dtype of a value: of an array, a tensor or a node.
        if dtype is None or isinstance(dtype, _VALUES) or _is_value(dtype):
            raise TypeError
        if isinstance(dtype, str) and dtype == "bfloat16":
            return _bfloat16()  # NumPy knows the name only after ml_dtypes is imported
        result = DALIDataType(dtype).numpy if isinstance(dtype, int) else np.dtype(dtype)
        # Records, subarrays, objects, strings, times, and types without bytes cannot be elements of a pipeline's
        # values.
        # A raw "V" is bytes without a meaning; the narrow floats of ml_dtypes have that kind, and another type.
        meaningless = result.kind in "OSUMm" or result.type is np.void
        if result.names is not None or result.subdtype is not None or meaningless or not result.itemsize:
            raise TypeError
    except Exception:  # noqa: BLE001  # NumPy reads attributes of the object, which may raise anything
        raise ArgumentTypeError(
            "no such data type",
            given=short_repr(dtype),
            expected=DTYPES_IN_WORDS,
            fix=did_you_mean(dtype, DALIDataType.__members__) if isinstance(dtype, str) else dali_object_hint(dtype),
        ) from None
    return result


def to_numpy_type(dali_type: Any) -> Any:
    """Return the NumPy scalar type of a `DALIDataType` or of its number.

    Raises:
        ArgumentTypeError: NumPy has no such type.

    >>> to_numpy_type(DALIDataType.FLOAT)
    <class 'numpy.float32'>
    """
    return as_dtype(dali_type).type


@with_call_site
def to_dali_type(framework_type: Any) -> DALIDataType:
    """Return the `DALIDataType` with the name of another library's type; "float" is float32, as in DALI.

    Raises:
        ArgumentTypeError: DALI does not have a type of that name.

    >>> to_dali_type("uint8"), to_dali_type(np.float32), to_dali_type("torch.half")
    (<DALIDataType.UINT8: 0>, <DALIDataType.FLOAT: 9>, <DALIDataType.FLOAT16: 8>)
    """
    try:
        name = framework_type.__qualname__ if isinstance(framework_type, type) else str(framework_type)
        # `str(torch.float32)` is "torch.float32"; PyTorch itself need not be installed.
        name = name.removeprefix("torch.")
        dtype = as_dtype({"float": "float32", "boolean": "bool"}.get(name, name))
        return next(kind for kind in _NUMERIC if kind.numpy == dtype)
    except Exception:  # noqa: BLE001  # a user's object may raise anything
        raise ArgumentTypeError(
            "no such data type", given=short_repr(framework_type), expected="a numeric type"
        ) from None
