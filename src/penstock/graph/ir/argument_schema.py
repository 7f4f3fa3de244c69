"""What an argument of an operator must be, checked while a definition is traced; and its form while it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr

_NUMBERS = "biuf"
"""The kinds of NumPy's dtypes that are numbers: truth values, signed and unsigned whole numbers, floats."""


def as_numbers(what: str, given: Any, expected: Any = "a number or a list") -> np.ndarray[Any, Any]:
    """Numbers that a user gave, as an array.

    Args:
        what: the operator and the argument, for messages.
        given: a number, a nested sequence or an array.
        expected: what it must be, for messages.

    Raises:
        ArgumentTypeError: it holds no numbers.

    >>> as_numbers("fn.slice: start", [1, 2]).tolist()
    [1, 2]
    """
    try:
        values = np.asarray(given)
    except Exception:  # noqa: BLE001  # a ragged list, or whatever an array-like of somebody else's raises
        values = np.empty(0, object)
    if values.dtype.kind not in _NUMBERS:
        raise ArgumentTypeError(
            f"{what} takes numbers", given=f"{short_repr(given)} of type {type(given).__name__}", expected=expected
        )
    return values


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument that may differ from row to row.

    Args:
        dtype: of the array that kernels get.
        shape: of one row's entry; None for an extent that the user chooses. One number stands for a vector of one, and
            an array of one for a number.
        low: the least value that it can have.
        high: the greatest.
        varies: whether it may differ from row to row; else it is a constant.
        example: a value that it may have, for planning where it is not known.
    """

    dtype: Any = np.float64
    shape: tuple[int | None, ...] = ()
    low: float = -np.inf
    high: float = np.inf
    varies: bool = True
    example: float = 1.0

    def check(self, what: str, given: Any) -> None:
        """Check a constant, or the spec of a node.

        Args:
            what: the operator and the argument, for messages.
            given: a number, a nested sequence, an array, or a `Spec`.

        Raises:
            ArgumentTypeError: it holds no numbers, or is a node of floats or where only a constant can be.
            DefinitionError: its shape is another, or a number is not in range or not whole.
        """
        if isinstance(given, Spec):
            self._check_node(what, given)
            return
        values = as_numbers(what, given, self)
        if not self._fits(values.shape):
            raise DefinitionError(f"{what} has another shape", given=short_repr(given), expected=self)
        if self._whole and (np.mod(values, 1) != 0).any():
            raise DefinitionError(f"{what} is a whole number", given=short_repr(given), expected=self)
        if values.size and not self._in_range(values.min().item(), values.max().item()):
            raise DefinitionError(f"{what} is out of range", given=short_repr(given), expected=self)

    def _check_node(self, what: str, given: Spec) -> None:
        if not self.varies:
            raise ArgumentTypeError(f"{what} is the same for all samples", given="a node", expected="a constant")
        if given.dtype.kind not in _NUMBERS:
            raise ArgumentTypeError(f"{what} takes numbers", given=given, expected=self)
        if self._whole and given.dtype.kind == "f":
            raise ArgumentTypeError(
                f"{what} is a whole number", given=given, expected=self, fix="fn.cast(..., dtype=types.INT32)"
            )
        axes = given.shape if self.shape else [extent for extent in given.shape if extent != 1]
        if len(axes) > max(1, len(self.shape)):
            raise DefinitionError(f"{what} has another shape", given=given, expected=self)

    @property
    def _whole(self) -> bool:
        return np.dtype(self.dtype).kind in "iu"

    def _fits(self, shape: tuple[int, ...]) -> bool:
        if len(self.shape) == 1 and not shape:
            return self.shape[0] in (1, None)
        if not self.shape and all(extent == 1 for extent in shape):
            return True
        return len(shape) == len(self.shape) and all(
            n in (None, size) for n, size in zip(self.shape, shape, strict=True)
        )

    def broadcast_rows(self, xp: Any, given: Any, rows: int, *, varying: bool) -> Any:
        """The argument with an entry per row.

        Args:
            xp: the array namespace.
            given: a constant, or a column with an entry per row, which may be a list.
            rows: how many there are.
            varying: whether it is a column.

        Raises:
            ValueError: a column has another shape, or a number that is not in range; also naming which.
        """
        if not varying:
            value = np.asarray(given, _narrow(xp, self.dtype))
            value = (
                value.reshape((1,) * (len(self.shape) - value.ndim) + value.shape)
                if value.ndim <= len(self.shape)
                else value.reshape(())
            )
            return np.broadcast_to(value, (rows, *value.shape))
        column: Any = np.stack(cast(list[Any], given)) if isinstance(given, list) else given
        shape = tuple(column.shape[1:])
        if not self._fits(shape):
            raise ValueError(f"an argument has shape {shape}, not {self._shape()}")
        if len(shape) != len(self.shape):
            column = column.reshape(rows, *(1,) * len(self.shape))
        if xp is np and column.size and not self._in_range(column.min().item(), column.max().item()):
            raise ValueError(f"an argument is {column.tolist()[0] if rows == 1 else 'out of range'}, not {self}")
        return column.astype(_narrow(xp, self.dtype))

    def _in_range(self, least: float, most: float) -> bool:
        """Whether numbers are finite and in range, of which these are the least and the greatest; NaN is both."""
        if not (math.isfinite(least) and math.isfinite(most) and self.low <= least and most <= self.high):
            return False
        return not self._whole or (np.iinfo(self.dtype).min <= least and most <= np.iinfo(self.dtype).max)

    def _shape(self) -> str:
        return (
            "one number"
            if not self.shape
            else " x ".join("n" if n is None else str(n) for n in self.shape) + " numbers"
        )

    def __str__(self) -> str:
        limits = f" from {self.low:g} to {self.high:g}" if np.isfinite([self.low, self.high]).all() else ""
        if not limits and np.isfinite(self.low):
            limits = f", at least {self.low:g}"
        whole = f" in {np.dtype(self.dtype)}" if self._whole else ""
        return self._shape() + limits + whole


def _narrow(xp: Any, dtype: Any) -> Any:
    """The dtype as the namespace has it: JAX computes with 32 bits."""
    wide = np.dtype(dtype)
    return wide if xp is np or wide.itemsize < 8 else np.dtype(f"{wide.kind}4")
