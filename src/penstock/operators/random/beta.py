"""random.beta: numbers from the beta distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.numerics.casting import broadcast_rows
from penstock.operators.random.random_operator import Extents, RandomOperator, draw
from penstock.types import FLOAT, as_dtype

_ATTEMPTS = 6
"""Each is accepted with a probability of at least 0.95: all fail for less than one number in 10 million."""
_WORDS = 3 * _ATTEMPTS + 1
_NEVER_BETWEEN = 2.0**-80
"""Where both parameters are less, draws are 0 or 1, and only the ratio of the parameters counts."""


@dataclass(frozen=True)
class Beta(RandomOperator):
    """Numbers as the share of one gamma variate in two.

    Gamma variates are made as Marsaglia and Tsang do ("A Simple Method for Generating Gamma Variables", 2000), with a
    fixed number of attempts. Logarithms are computed with, since small parameters give very small numbers.
    """

    @property
    def words(self) -> int:
        """Number of draws: as many for each of the two variates."""
        return 2 * _WORDS * math.prod(self.shape)

    def batch(self, context: BatchContext, *_like: Any, alpha: Any, beta: Any) -> Any:
        """The draws."""
        xp, count = context.xp, math.prod(self.shape)
        draws = self.fractions(context.bits).reshape(context.rows, 2, _WORDS, count)
        alpha, beta = (
            broadcast_rows(xp, xp.asarray(term, np.float32).astype(draws.dtype), 2) for term in (alpha, beta)
        )
        if xp is np and (np.any(alpha <= 0) or np.any(beta <= 0)):
            raise ValueError("alpha and beta must be more than 0")
        one, epsilon = draws.dtype.type(1), 2**-53 if self.wide else 2**-24
        # The logarithms of both variates would overflow, and XLA takes parameters below 2**-126 for 0
        scale = xp.where(xp.maximum(alpha, beta) < _NEVER_BETWEEN, draws.dtype.type(2**64), one)
        first, second = (
            _log_gamma_variate(xp, xp.maximum(term * scale, draws.dtype.type(2**-120)), draws[:, side], epsilon)
            for side, term in enumerate((alpha, beta))
        )
        share = one / (one + xp.exp(second - first))
        return share.astype(self.dtype).reshape(context.rows, *self.shape)


def _log_gamma_variate(xp: Any, shape: Any, draws: Any, epsilon: float) -> Any:
    """The logarithm of a gamma variate, from multiples of `epsilon` in [0, 1) along axis 1."""
    number = draws.dtype.type
    tiny, one, third = number(epsilon), number(1), number(1 / 3)
    small = shape < one
    scale = xp.where(small, shape + one, shape) - third
    slope = one / xp.sqrt(number(9) * scale)
    result = xp.log(scale) + xp.zeros(draws.shape[::2], draws.dtype)
    found = xp.zeros(draws.shape[::2], bool)
    for attempt in range(_ATTEMPTS):
        radius, turn, limit = (draws[:, 3 * attempt + word] for word in range(3))
        normal = xp.sqrt(number(-2) * xp.log(radius + tiny)) * xp.cos(turn * number(2 * math.pi))
        root = one + slope * normal
        cube = root * root * root
        log_cube = xp.log(xp.where(cube > 0, cube, one))
        bound = number(0.5) * normal * normal + scale - scale * cube + scale * log_cube
        taken = (cube > 0) & (xp.log(limit + tiny) < bound) & ~found
        result = xp.where(taken, xp.log(scale) + log_cube, result)
        found = found | taken
    boost = xp.log(draws[:, 3 * _ATTEMPTS] + tiny) / xp.where(small, shape, one)
    return xp.where(small, result + boost, result)


@operator("random.beta")
def beta(
    shape_like: DataNode | None = None,
    *,
    alpha: float | DataNode = 1.0,
    beta: float | DataNode = 1.0,
    dtype: Any = FLOAT,
    shape: Extents | None = None,
    seed: int = -1,
) -> DataNode:
    """Draw numbers from the beta distribution, as mixup needs them. Every sample has its own, in every epoch others.

    Args:
        shape_like: a node, or an array, whose shape the draws of a sample take.
        alpha: more than 0; a node gives each sample its own.
        beta: more than 0; a node gives each sample its own.
        dtype: element type: a float.
        shape: the shape of a sample; none gives one number. A node gives each sample its own.
        seed: a seed for this operator alone; -1 derives it from the pipeline's.

    Returns:
        Numbers from 0 to 1, in `dtype`.

    Raises:
        DefinitionError: `alpha` or `beta` is not more than 0, or `dtype` is no float.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=100, seed=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.random.beta(alpha=2, beta=6, shape=100))
        >>> bool(abs(pipeline.run()[0].as_array().mean() - 2 / 8) < 0.01)
        True
    """
    for name, term in (("alpha", alpha), ("beta", beta)):
        if not isinstance(term, DataNode) and not term > 2.0**-150:  # less is 0 as float32
            raise DefinitionError(f"fn.random.beta: {name} must be more than 0", given=term, expected="1e-45 or more")
    element = as_dtype(dtype)
    if element.kind != "f":
        raise DefinitionError("fn.random.beta draws floats", given=element, fix="fn.cast(x, dtype=...)")
    return draw(
        Beta((), element),
        like=shape_like,
        shape=shape,
        option="alpha",
        seed=seed,
        alpha=alpha,
        beta=beta,
    )
