"""Keys of constant arguments: equal for arguments that give equal programs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import Enum
from typing import Any, cast

import numpy as np

from penstock.types import is_bfloat16


class UnknownConstantError(Exception):
    """An argument has no key, so that a program with it cannot be found again."""


def constant_key(value: Any) -> Hashable:
    """Return the key of an argument.

    Functions count by identity. Types are part of the key, because 1, 1.0 and True are equal in Python.

    Raises:
        UnknownConstantError: The argument may change, or is of an unknown type.

    >>> constant_key([1, 2.0]) == constant_key([1, 2.0]), constant_key(1) == constant_key(True)
    (True, False)
    """
    kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is int or kind is str or value is None or isinstance(value, bool | bytes | Enum | np.dtype | type):
        return kind, cast(Hashable, value)
    if kind is float:
        return kind, value.hex()  # in which 0.0 differs from -0.0, and NaN equals NaN
    if kind is list or kind is tuple:
        return kind, tuple([constant_key(item) for item in value])
    if isinstance(value, Mapping):
        items = cast(Mapping[Any, Any], value).items()
        return kind, tuple([(constant_key(name), constant_key(item)) for name, item in items])
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(cast(Any, value))
        if array.dtype.kind in "biufc" or is_bfloat16(array.dtype):
            return kind, array.dtype, array.shape, array.tobytes()
    elif callable(value) and type(value).__hash__ is not None:
        return kind, value
    raise UnknownConstantError
