"""Element types of dynamic mode: `u8`, `f32` and the others, with DALI's names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import numpy as np

from penstock.core import with_call_site
from penstock.errors import ArgumentTypeError, UnknownNameError, short_repr
from penstock.types import DALIDataType, as_dtype, to_dali_type


class _Kind(Enum):
    """Kinds of elements."""

    signed = 1
    unsigned = 2
    float = 3
    bool = 4


_KINDS = {"b": _Kind.bool, "i": _Kind.signed, "u": _Kind.unsigned, "f": _Kind.float}


@dataclass(frozen=True)
class DType:
    """Type of the elements of a `Tensor` or `Batch`.

    Args:
        numpy: The type in NumPy.

    >>> from penstock import dynamic as ndd
    >>> str(ndd.uint8), ndd.uint8.bits, ndd.uint8 == "something else"
    ('u8', 8, False)
    >>> str(ndd.uint8([1, 2]).dtype)  # a type is also a constructor of tensors
    'u8'
    """

    Kind: ClassVar = _Kind

    numpy: np.dtype[Any]

    @property
    def name(self) -> str:
        """Short name, such as "u8"."""
        kind = self.numpy.kind
        return "bool" if kind == "b" else f"{kind}{self.bits}"

    @property
    def kind(self) -> _Kind:
        """Member of `DType.Kind`."""
        return _KINDS[self.numpy.kind]

    @property
    def bits(self) -> int:
        """Size in bits."""
        return 8 * self.bytes

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.numpy.itemsize

    @property
    def exponent_bits(self) -> int | None:
        """Bits of the exponent; None for integers."""
        return int(np.finfo(self.numpy).nexp) if self.kind is _Kind.float else None

    @property
    def significand_bits(self) -> int | None:
        """Bits of the significand without its leading one; None for integers."""
        return int(np.finfo(self.numpy).nmant) if self.kind is _Kind.float else None

    @property
    def type_id(self) -> DALIDataType:
        """Member of DALI's enumeration `types.DALIDataType`."""
        return to_dali_type(self.numpy.name)

    @staticmethod
    @with_call_site
    def parse(name: str) -> DType:
        """Return the type of a short name, such as "f32".

        Raises:
            UnknownNameError: There is no such type.
        """
        if name not in _BY_SHORT_NAME:
            raise UnknownNameError("unknown element type", given=name, expected=", ".join(_BY_SHORT_NAME))
        return _BY_SHORT_NAME[name]

    @staticmethod
    def from_type_id(type_id: DALIDataType) -> DType:
        """Return the type of a member of `types.DALIDataType`."""
        return dtype(type_id)

    @staticmethod
    def from_fw_type(numpy_type: Any) -> DType:
        """Return the type of a dtype or scalar type of NumPy."""
        return dtype(numpy_type)

    def __str__(self) -> str:
        return self.name


BY_NAME = {
    name: DType(np.dtype(name.replace("bool", "bool_")))
    for name in (
        "bool",
        *("int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    )
}
_BY_SHORT_NAME = {kind.name: kind for kind in BY_NAME.values()}


def dtype(value: Any) -> DType:
    """Return the element type for a `DType`, a type of DALI or NumPy, or a short name such as "f32".

    Raises:
        ArgumentTypeError: It is of another kind.
        UnknownNameError: No type has this name.

    >>> str(dtype("f32")), dtype(np.uint8) == dtype("u8")
    ('f32', True)
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        return DType.parse(value)
    if value is int or (isinstance(value, int) and not isinstance(value, DALIDataType)):
        raise ArgumentTypeError(
            "an integer does not tell its size", given=short_repr(value), fix="np.int32 or np.int64"
        )
    numpy = np.dtype(np.float32) if value is float else as_dtype(value)
    if numpy.kind not in _KINDS:
        raise ArgumentTypeError("dynamic mode has no such element type", given=short_repr(value))
    return element_type(numpy)


def element_type(numpy: np.dtype[Any]) -> DType:
    """Return the element type of arrays of a dtype.

    Programs compare with `is`, as in DALI: ``tensor.dtype is ndd.uint8``.
    """
    return BY_NAME.get(numpy.name) or DType(numpy)


def type_id(dtype: DType) -> DALIDataType:
    """Return the member of `types.DALIDataType` for a `DType`.

    >>> from penstock import dynamic as ndd
    >>> ndd.type_id(ndd.float32)
    <DALIDataType.FLOAT: 9>
    """
    return dtype.type_id
