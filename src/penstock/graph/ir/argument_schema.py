"""Schema of per-sample arguments: checks while a definition is traced, and conversion to rows while it runs."""

import math
from typing import Any, cast

import numpy as np

from penstock.core import Spec
from penstock.core.dataclass import dataclass
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr

_NUMBERS = "biuf"  # kinds of NumPy dtypes: booleans, signed and unsigned integers, floats


def as_numbers(what: str, given: Any, expected: Any = "a number or a list") -> np.ndarray[Any, Any]:
    """Return numbers of the user's as an array.

    Args:
        what: Name of the argument, for messages.
        given: A number, a nested sequence or an array.
        expected: Description of valid values, for messages.

    Raises:
        ArgumentTypeError: The value does not hold numbers.

    >>> as_numbers("start", [1, 2]).tolist()
    [1, 2]
    """
    try:
        values = np.asarray(given)
    except Exception:  # noqa: BLE001  # NumPy refuses ragged lists, and an array-like may raise anything
        values = np.empty(0, object)
    if values.dtype.kind not in _NUMBERS:
        raise ArgumentTypeError(
            f"{what} takes numbers", given=f"{short_repr(given)} of type {type(given).__name__}", expected=expected
        )
    return values


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument that may differ between samples.

    Args:
        dtype: Type of the array that kernels get.
        shape: Shape of one sample's value; None for an extent that the user chooses. A number may replace a vector of
            one, and an array with one element a number.
        low: Least value allowed.
        high: Greatest value allowed.
        varies: False if the argument must be a constant.
        example: A valid value, for planning while the argument is not known.
        fill: Number that fills smaller arrays on the host, if samples may have different shapes; None if they may not.
    """

    dtype: Any = np.float64
    shape: tuple[int | None, ...] = ()
    low: float = -np.inf
    high: float = np.inf
    varies: bool = True
    example: float = 1.0
    fill: float | None = None

    def check(self, what: str, given: Any) -> None:
        """Check a constant, or the spec of a node.

        Args:
            what: Name of the argument, for messages.
            given: A number, a nested sequence, an array, or a `Spec`.

        Raises:
            ArgumentTypeError: The value does not hold numbers, or is a node where only integers or constants are valid.
            DefinitionError: The shape does not fit, or a number is out of range or not an integer.
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
        # As in DALI, a number replaces a vector of one, and an array with one element a number.
        if len(self.shape) == 1 and not shape:
            return self.shape[0] in (1, None)
        if not self.shape and all(extent == 1 for extent in shape):
            return True
        return len(shape) == len(self.shape) and all(
            n in (None, size) for n, size in zip(self.shape, shape, strict=True)
        )

    def broadcast_rows(self, xp: Any, given: Any, rows: int, *, varying: bool) -> Any:
        """Return the argument with an entry per row.

        Args:
            xp: The array namespace.
            given: A constant; or a column with an entry per row, an array or a list.
            rows: Number of rows.
            varying: True if `given` is a column.

        Raises:
            ValueError: A column has another shape, or a number is out of range.
        """
        if not varying:
            value = np.asarray(given, _narrow(xp, self.dtype))
            value = (
                value.reshape((1,) * (len(self.shape) - value.ndim) + value.shape)
                if value.ndim <= len(self.shape)
                else value.reshape(())
            )
            return np.broadcast_to(value, (rows, *value.shape))
        column: Any = given
        if isinstance(given, list):
            samples = cast(list[Any], given)
            if self.fill is not None and (filled := self._filled(samples)) is not None:
                return filled
            column = np.stack(samples)
        shape = tuple(column.shape[1:])
        if not self._fits(shape):
            raise ValueError(f"an argument has shape {shape}, not {self._shape()}")
        if len(shape) != len(self.shape):
            column = column.reshape(rows, *(1,) * len(self.shape))
        # A compiled XLA program cannot raise errors that depend on values, so only the host checks ranges.
        if xp is np and column.size and not self._in_range(column.min().item(), column.max().item()):
            raise ValueError(f"an argument is {column.tolist()[0] if rows == 1 else 'out of range'}, not {self}")
        return column.astype(_narrow(xp, self.dtype))

    def _filled(self, values: list[Any]) -> Any:
        """Return arrays of different shapes as one array; None if they have one shape or another rank."""
        shapes = {np.shape(value) for value in values}
        if len(shapes) == 1 or {len(shape) for shape in shapes} != {len(self.shape)}:
            return None
        result = np.full((len(values), *np.max(list(shapes), axis=0)), self.fill, self.dtype)
        for row, value in zip(result, values, strict=True):
            row[tuple(map(slice, value.shape))] = self.broadcast_rows(np, value[None], 1, varying=True)[0]
        return result

    def _in_range(self, least: float, most: float) -> bool:
        """Return True if numbers between these two are finite and in range. If one is NaN, so are both of these."""
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
    """Return the dtype for an array namespace: JAX has 32 bits unless its x64 mode is on."""
    wide = np.dtype(dtype)
    return wide if xp is np or wide.itemsize < 8 else np.dtype(f"{wide.kind}4")
