"""Compiled functions that limit a number to a range."""

from typing import Any

import numpy as np

from penstock.native.compiled import Compiled


@Compiled
def clip(value: Any, low: Any, high: Any) -> Any:
    """Limit a number to [low, high]. NaN becomes `low`.

    Loops call it in place of `min` and `max`: numba compiles each of those again for every dtype, and that takes longer
    than to compile a short condition.
    """
    if value > low:
        return value if value < high else high  # noqa: FURB136  # without `min`, see above
    return low


@Compiled
def byte(value: Any) -> Any:
    """Clip to [0, 255]."""
    return np.uint8(clip(np.int32(value), np.int32(0), np.int32(255)))
