"""Declarations of the features of Example messages."""

import operator
from collections.abc import Sequence
from typing import Any, cast, overload

import numpy as np

from penstock.core import with_call_site
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr

int64, string, float32 = 0, 1, 2
"""The types that features have in the format."""


class Feature:
    """A feature of the examples in TFRecord files: a `FixedLenFeature` or a `VarLenFeature`.

    Args:
        shape: Extents of the axes; for a feature of varying length, of those after the first.
        dtype: `int64`, `string` or `float32`.
        default_value: Value for examples without the feature. If the length varies, numbers are empty instead.

    Raises:
        ArgumentTypeError: The shape has an entry that is not an integer.
        DefinitionError: The type does not exist, or an extent is not positive.
    """

    @with_call_site
    def __init__(self, shape: Sequence[int], dtype: int, default_value: Any) -> None:
        if not isinstance(cast(Any, dtype), int | np.integer) or dtype not in (int64, string, float32):
            raise DefinitionError(
                "no such type of a feature", given=short_repr(dtype), expected="tfrecord.int64, string or float32"
            )
        try:
            self.shape = tuple([operator.index(extent) for extent in shape])
        except Exception:  # noqa: BLE001  # a user's object may raise anything
            raise ArgumentTypeError("a feature's shape is a list of whole numbers", given=short_repr(shape)) from None
        if min(self.shape, default=1) < 1:
            raise DefinitionError(
                "a feature's extents are at least 1",
                given=short_repr(shape),
                fix="VarLenFeature(dtype, default_value), where the first one varies",
            )
        self.dtype, self.default_value = dtype, default_value

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), self.shape, self.dtype))


class FixedLenFeature(Feature):
    """A feature that has the same shape in all examples."""


class VarLenFeature(Feature):
    """A feature whose first axis varies in length.

    Accepts a type and a default value, or a shape before them that describes the axes after the first.
    """

    @overload
    def __init__(self, dtype: int, default_value: Any, /) -> None: ...
    @overload
    def __init__(self, shape: Sequence[int], dtype: int, default_value: Any, /) -> None: ...
    @with_call_site
    def __init__(self, *args: Any) -> None:
        if len(args) not in (2, 3):
            raise ArgumentTypeError(
                "VarLenFeature takes a type and a default, or a shape before them", given=f"{len(args)} arguments"
            )
        shape, dtype, default_value = args if len(args) == 3 else ((), *args)
        super().__init__(shape, dtype, default_value)
