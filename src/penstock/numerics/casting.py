"""Rounding, saturation and casts with the same result in NumPy and XLA. All operators use these.

The defaults of the two differ: 300.0 as uint8 is 44 in NumPy and 255 in XLA, both round halves to even where DALI
rounds them away from zero, and `uint8 * 0.5` is a float64 in NumPy.
"""

from typing import Any

import numpy as np

from penstock.core.dtypes import is_float
from penstock.errors import DefinitionError
from penstock.types import NO_TYPE, as_dtype, is_bfloat16


def result_dtype(own: np.dtype[Any], *wanted: Any) -> np.dtype[Any]:
    """Return the dtype that the user set under one of an argument's names, or the input's.

    Raises:
        DefinitionError: The user set it under two names.
    """
    given = [dtype for dtype in map(wanted_dtype, wanted) if dtype is not None]
    if len(given) > 1:
        raise DefinitionError("dtype is set twice, once by its older name", given=given, fix="dtype=... alone")
    return given[0] if given else own


def wanted_dtype(dtype: Any) -> np.dtype[Any] | None:
    """Return the dtype that the user set; None for None and for DALI's NO_TYPE."""
    return None if dtype is None or dtype is NO_TYPE else as_dtype(dtype)


def output_dtype(own: np.dtype[Any], wanted: Any) -> np.dtype[Any]:
    """Return the output dtype of an operator that can return its input's dtype or float32.

    Raises:
        DefinitionError: the user set another dtype.
    """
    dtype = result_dtype(own, wanted)
    if dtype not in (own, np.float32):
        raise DefinitionError("dtype must be that of the input, or FLOAT", given=dtype, expected=f"{own}, float32")
    return dtype


def cast_saturating(xp: Any, values: Any, dtype: np.dtype[Any]) -> Any:
    """Convert values to another dtype as DALI does.

    Floats round to the nearest integer, halves away from zero. Values out of range saturate, and NaN becomes 0. For
    bool, all values that do not round to 0 become True, also NaN.

    Args:
        xp: The array namespace, `numpy` or `jax.numpy`.
        values: An array of any shape.
        dtype: The dtype of the result.

    >>> cast_saturating(np, np.array([-1.5, 0.5, 300.0]), np.dtype("uint8"))
    array([  0,   1, 255], dtype=uint8)
    >>> cast_saturating(np, np.array([-0.5, 0.4, 0.0]), np.dtype("bool"))
    array([ True, False, False])
    """
    if values.dtype == dtype:
        return values
    if values.dtype.kind == "b":
        return cast_bool(xp, values, dtype)
    if dtype.kind == "b" and is_float(values.dtype):
        return ~(abs(values) < xp.asarray(0.5, values.dtype))  # NaN, which is not less, becomes True
    if dtype.kind == "b":
        return values != xp.zeros((), values.dtype)
    if is_bfloat16(dtype):
        # XLA would round a float64 once, and NumPy twice: the result is always that of a float32.
        return values.astype(np.float32).astype(dtype)
    if dtype.kind not in "iu":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    if values.dtype.kind in "iu":
        own = np.iinfo(values.dtype)
        low, high = max(limits.min, own.min), min(limits.max, own.max)
        return xp.clip(values, xp.asarray(low, values.dtype), xp.asarray(high, values.dtype)).astype(dtype)
    return _saturate(xp, round_half_away(xp, values), dtype)


def cast_bool(xp: Any, values: Any, dtype: np.dtype[Any]) -> Any:
    """Convert booleans to 0 and 1 of another dtype."""
    if xp is np or dtype.kind in "iu":
        return values.astype(dtype)
    # XLA turns the product of a converted boolean and x into a selection of x or 0, which loses NaN and -0.
    return xp.where(values, xp.ones((), dtype), xp.zeros((), dtype))


def round_half_away(xp: Any, values: Any) -> Any:
    """Round floats to whole numbers, halves away from zero."""
    # `floor(x + 0.5)` would be wrong for 0.49999997 in float32, where the sum rounds up to 1.
    whole = xp.trunc(values)
    up = abs(values - whole) >= xp.asarray(0.5, values.dtype)
    return whole + xp.copysign(up.astype(values.dtype), values)


def _saturate(xp: Any, values: Any, dtype: np.dtype[Any]) -> Any:
    """Convert whole floats to integers, with saturation."""
    limits = np.iinfo(dtype)
    # float16 cannot represent the limits of int32.
    if values.dtype.itemsize == 2:
        values = values.astype(np.float32)
    low, high = xp.asarray(limits.min, values.dtype), xp.asarray(limits.max, values.dtype)
    # As floats, the limits of wide integers may round up, out of range. So they are filled in as integers.
    inside = (values > low) & (values < high)  # False for NaN
    result = xp.where(inside, values, xp.zeros((), values.dtype)).astype(dtype)
    result = xp.where(values >= high, xp.asarray(limits.max, dtype), result)
    return xp.where(values <= low, xp.asarray(limits.min, dtype), result)


def broadcast_rows(xp: Any, argument: Any, ndim: int) -> Any:
    """Reshape an argument with one entry per row to broadcast against rank `ndim`. Constants stay scalars."""
    values = xp.asarray(argument)
    return values.reshape(values.shape[:1] + (1,) * (ndim - 1)) if values.ndim else values
