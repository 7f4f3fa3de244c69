"""Element types of dynamic mode: `u8`, `f32` and the others, with DALI's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import ArgumentTypeError, short_repr
from penstock.types import as_dtype

_KINDS = {"b": "bool", "i": "signed", "u": "unsigned", "f": "float"}


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

    numpy: np.dtype[Any]

    @property
    def name(self) -> str:
        """Short name, such as "u8"."""
        kind = self.numpy.kind
        return "bool" if kind == "b" else f"{kind}{self.bits}"

    @property
    def kind(self) -> str:
        """One of "signed", "unsigned", "float" and "bool"."""
        return _KINDS[self.numpy.kind]

    @property
    def bits(self) -> int:
        """Size in bits."""
        return 8 * self.bytes

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.numpy.itemsize

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
        ArgumentTypeError: It is none of them.

    >>> str(dtype("f32")), dtype(np.uint8) == dtype("u8")
    ('f32', True)
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        if value not in _BY_SHORT_NAME:
            raise ArgumentTypeError("unknown element type", given=value, expected=", ".join(_BY_SHORT_NAME))
        return _BY_SHORT_NAME[value]
    numpy = as_dtype(value)
    if numpy.kind not in _KINDS:
        raise ArgumentTypeError("dynamic mode has no such element type", given=short_repr(value))
    return DType(np.dtype(numpy))
