"""Sums of floats in a fixed order, with the same result in NumPy and in any XLA program."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def axes_last(xp: Any, values: Any, axes: Sequence[int]) -> Any:
    """Merge axes of an array into one last axis, in their order.

    Args:
        xp: The array namespace, `numpy` or `jax.numpy`.
        values: An array of any shape.
        axes: The axes to merge, not negative.

    Returns:
        The remaining axes, followed by the merged one.
    """
    remaining = [axis for axis in range(values.ndim) if axis not in axes]
    moved = xp.transpose(values, (*remaining, *sorted(axes)))
    count = math.prod(values.shape[axis] for axis in axes)
    return moved.reshape(*(values.shape[axis] for axis in remaining), count)


def ordered_sum(xp: Any, values: Any, axes: Sequence[int]) -> Any:
    """Sum over axes.

    Libraries order additions by the shape of the batch, and XLA also by the surrounding program. Here the second half
    of the terms is added to the first until one term is left, so the result depends on the terms only. Its error grows
    with the logarithm of their number, as in pairwise summation.

    Args:
        xp: The array namespace, `numpy` or `jax.numpy`.
        values: An array of floats.
        axes: The axes to sum over, not negative.

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
    """Keep XLA from fusing a product with a following addition, or a root with a following division.

    The fused instructions round once in place of twice, and XLA uses them depending on the number of rows. A comparison
    in between prevents that. It changes no value but minus infinity, which becomes the lowest finite number.

    Args:
        xp: The array namespace, `numpy` or `jax.numpy`.
        values: An array of floats.
    """
    if xp is np:
        return values
    # XLA would remove a bound of 0, which it knows to be below all squares.
    lowest = xp.finfo(values.dtype).min
    return xp.maximum(values, xp.asarray(lowest, values.dtype))


def sum_of_squares(xp: Any, values: Any, axes: Sequence[int]) -> Any:
    """Sum the squares over axes, in the order of `ordered_sum`.

    Args:
        xp: The array namespace, `numpy` or `jax.numpy`.
        values: An array of floats.
        axes: The axes to sum over, not negative.

    >>> sum_of_squares(np, np.float32([[1, 2], [3, 4]]), [1])
    array([ 5., 25.], dtype=float32)
    """
    return ordered_sum(xp, no_fma(xp, values * values), axes)
