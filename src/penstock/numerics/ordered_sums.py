"""Sums of floats in one fixed order, the same under NumPy and XLA, whatever is computed beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def axes_last(xp: Any, values: Any, axes: Sequence[int]) -> Any:
    """The axes of an array as its last one, in their order; the others stay in front of it.

    Args:
        xp: the array namespace.
        values: an array.
        axes: which, not negative.

    Returns:
        An array with as many elements and one axis more than are kept.
    """
    kept = [axis for axis in range(values.ndim) if axis not in axes]
    moved = xp.transpose(values, (*kept, *sorted(axes)))
    count = math.prod(values.shape[axis] for axis in axes)
    return moved.reshape(*(values.shape[axis] for axis in kept), count)


def ordered_sum(xp: Any, values: Any, axes: Sequence[int]) -> Any:
    """The sum over axes, which are left out.

    How a library orders the additions depends on the shape of the batch and on what is compiled around them. Here the
    second half of the numbers is added to the first until one is left: with this order the result is a function of the
    summed numbers alone. Its error grows with the logarithm of their count, as in pairwise summation.

    Args:
        xp: the array namespace.
        values: an array of floats.
        axes: over which, not negative.

    >>> import numpy as np
    >>> ordered_sum(np, np.ones((3, 5, 7), np.float32), [1, 2])
    array([35., 35., 35.], dtype=float32)
    """
    terms = axes_last(xp, values, axes)
    count = terms.shape[-1]
    if count == 0:
        return xp.zeros(terms.shape[:-1], terms.dtype)
    while count > 1:
        half = (count + 1) // 2
        paired = terms[..., : count - half] + terms[..., half:count]
        terms = paired if count % 2 == 0 else xp.concatenate([paired, terms[..., count - half : half]], axis=-1)
        count = half
    return terms[..., 0]


def no_fma(xp: Any, values: Any) -> Any:
    """Products or roots as they are, for an addition or a division that follows.

    Compilers contract a product and an addition, or a root and a division, into one instruction that rounds otherwise,
    and whether they do depends on the number of rows. So the values pass through a comparison, which changes none but
    minus infinity: that becomes the lowest number.

    Args:
        xp: the array namespace.
        values: an array of floats.
    """
    if xp is np:
        return values
    lowest = xp.finfo(values.dtype).min  # a bound of 0 would be recognised as one that squares never fall below
    return xp.maximum(values, xp.asarray(lowest, values.dtype))


def sum_of_squares(xp: Any, values: Any, axes: Sequence[int]) -> Any:
    """The sum of the squares over axes, which are left out; ordered as `ordered_sum` orders it.

    Args:
        xp: the array namespace.
        values: an array of floats.
        axes: over which, not negative.

    >>> sum_of_squares(np, np.float32([[1, 2], [3, 4]]), [1])
    array([ 5., 25.], dtype=float32)
    """
    return ordered_sum(xp, no_fma(xp, values * values), axes)
