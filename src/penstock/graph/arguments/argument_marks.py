"""Marks in annotations of arguments: limits, defaults, documentation, and what the identity of a call leaves out."""

import typing
from typing import Annotated, Any, NotRequired, Required, TypeVar

import numpy as np

from penstock.core.dataclass import dataclass
from penstock.types import DALIDataType

T = TypeVar("T")

LEFT_OUT = object()  # marks an argument that the fingerprint of a definition does not include

# The type of an argument that can only change speed, memory or placement: `PerformanceHint[int]`.
PerformanceHint = Annotated[T, LEFT_OUT]

# The type of an argument that locates a data set: `DataLocation[str]`. The data set has its own fingerprint, so that a
# copy in another folder is the same data set.
DataLocation = Annotated[T, LEFT_OUT]


@dataclass(frozen=True)
class Range:
    """Limits of a number, or of each number of a sequence: ``Annotated[int, Range(1)]``.

    Args:
        low: Least value allowed.
        high: Greatest value allowed.
        above: True if `low` itself is not allowed.
    """

    low: float = -np.inf
    high: float = np.inf
    above: bool = False

    def contains(self, least: float, most: float) -> bool:
        """Return True if all numbers between these two are allowed. NaN is not."""
        return self.low <= least and most <= self.high and not (self.above and least == self.low)

    def __str__(self) -> str:
        if self.above:
            return f" above {self.low}" + (f", at most {self.high}" if np.isfinite(self.high) else "")
        if not np.isfinite(self.high):
            return f" of at least {self.low}" if np.isfinite(self.low) else ""
        return f" from {self.low} to {self.high}" if np.isfinite(self.low) else f" of at most {self.high}"


# A number above 0: `Annotated[float, POSITIVE]`.
POSITIVE = Range(0, above=True)


@dataclass(frozen=True)
class NotEmpty:
    """Mark of a sequence that must have an element: ``Annotated[Sequence[int], NotEmpty()]``."""


@dataclass(frozen=True)
class ElementType:
    """Mark of an argument that is a dtype; see `DType`."""


# The type of an argument that is a dtype: a `DALIDataType`, its number, or what NumPy accepts. A node is none.
DType = Annotated[DALIDataType | Any, ElementType()]


@dataclass(frozen=True)
class Default:
    """Default of an argument that a typed dictionary declares: ``Annotated[bool, Default(False)]``.

    Without one, the default is None, which stands for "not given".
    """

    value: Any


def marks_of(hint: Any) -> tuple[Any, ...]:
    """Return the marks of an annotation.

    >>> marks_of(Annotated[int, Range(1), Default(2)])
    (Range(low=1, high=inf, above=False), Default(value=2))
    """
    while typing.get_origin(hint) in (Required, NotRequired):
        (hint,) = typing.get_args(hint)
    return getattr(hint, "__metadata__", ())
