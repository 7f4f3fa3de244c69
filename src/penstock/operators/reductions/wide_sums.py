"""Sums of integers on devices that exceed 32 bits. JAX has no 64-bit integers unless x64 is enabled."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.numerics.casting import cast_saturating


def wide_sum(xp: Any, values: Any, axes: Sequence[int], dtype: np.dtype[Any]) -> Any:
    """Sum integers over axes in 64 bits, and convert the result with the bits of `cast_saturating` of an int64.

    Args:
        xp: `jax.numpy`.
        values: An array of integers of at most 32 bits.
        axes: The axes to sum over, not negative.
        dtype: Dtype of the result, at most 32 bits.
    """
    from jax import lax  # noqa: PLC0415  # for the device program alone

    def add(total: Any, term: Any) -> Any:
        low = total[0] + term[0]
        return low, total[1] + term[1] + (low < total[0]).astype(np.int32)

    # The low word wraps, and its carry goes to the high one.
    terms = values.astype(np.uint32), -(values < 0).astype(np.int32)
    low, high = lax.reduce(terms, (np.uint32(0), np.int32(0)), add, tuple(axes))
    if dtype.kind == "b":
        return (low != 0) | (high != 0)
    if dtype.kind not in "iu":
        return cast_saturating(xp, _as_float32(xp, low, high), dtype)
    # Saturated to the 32 bits of `values` or, for a narrower dtype, of int32, which saturates once more.
    limits = np.iinfo(np.uint32 if dtype == np.uint32 else np.int32)
    own = low.astype(limits.dtype)
    fits = high == (0 if dtype == np.uint32 else -(own < 0).astype(np.int32))
    saturated = xp.where(high < 0, xp.asarray(limits.min, limits.dtype), xp.asarray(limits.max, limits.dtype))
    return cast_saturating(xp, xp.where(fits, own, saturated), dtype)


def _as_float32(xp: Any, low: Any, high: Any) -> Any:
    """Round a 64-bit integer in two words to float32, halves to even, as NumPy does."""
    from jax import lax  # noqa: PLC0415  # for the device program alone

    negative = high < 0
    low, high = (
        xp.where(negative, -low, low),
        xp.where(negative, ~high + (low == 0).astype(np.int32), high).astype(np.uint32),
    )
    # The top 32 bits round like the whole number if their last bit tells whether any bit below them is set.
    shift = np.uint32(32) - lax.clz(high)
    top = xp.where(shift == 32, high, high << (np.uint32(32) - shift) | lax.shift_right_logical(low, shift))
    rest = xp.where(shift == 32, low, low & ((np.uint32(1) << shift) - np.uint32(1)))
    top = xp.where(high == 0, low, top | (rest != 0).astype(np.uint32))
    magnitude = top.astype(np.float32) * lax.bitcast_convert_type((shift + np.uint32(127)) << 23, np.float32)
    return xp.where(negative, -magnitude, magnitude)
