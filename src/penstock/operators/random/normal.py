"""random.normal: numbers from the normal distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.numerics.casting import broadcast_rows, cast_saturating
from penstock.operators.random.random_operator import Extents, RandomOperator, draw
from penstock.types import FLOAT, as_dtype


@dataclass(frozen=True)
class Normal(RandomOperator):
    """Numbers by the transform of Box and Muller (1958): two uniform ones become two normal ones."""

    @property
    def words(self) -> int:
        """Number of draws: one per element, in pairs."""
        return super().words + super().words % 2

    def batch(self, context: BatchContext, *_like: Any, mean: Any, stddev: Any) -> Any:
        """The draws."""
        xp, count = context.xp, math.prod(self.shape)
        draws = self.fractions(context.bits)
        number = draws.dtype.type
        above_zero = draws[:, ::2] + number(2**-53 if self.wide else 2**-24)
        turns = draws[:, 1::2] * number(2 * math.pi)
        length = xp.sqrt(number(-2) * xp.log(above_zero))
        normal = xp.concatenate([length * xp.cos(turns), length * xp.sin(turns)], axis=1)[:, :count]
        centre, spread = (
            broadcast_rows(xp, xp.asarray(term, np.float32).astype(draws.dtype), 2) for term in (mean, stddev)
        )
        return cast_saturating(xp, normal * spread + centre, self.dtype).reshape(context.rows, *self.shape)


@operator("random.normal")
def normal(
    shape_like: DataNode | None = None,
    *,
    mean: float | DataNode = 0.0,
    stddev: float | DataNode = 1.0,
    dtype: Any = FLOAT,
    shape: Extents | None = None,
    seed: int = -1,
) -> DataNode:
    """Draw numbers from the normal distribution. Every sample has its own, in every epoch others.

    Args:
        shape_like: a node, or an array, whose shape the draws of a sample take.
        mean: of the distribution; a node gives each sample its own.
        stddev: the standard deviation; a node gives each sample its own.
        dtype: element type; integers are rounded and saturate.
        shape: the shape of a sample; none gives one number. A node gives each sample its own.
        seed: a seed for this operator alone; -1 derives it from the pipeline's.

    Returns:
        A sample of `shape`, in `dtype`.

    Raises:
        DefinitionError: a negative deviation, a shape that is not whole numbers.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=100, seed=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.random.normal(mean=5.0, shape=100))
        >>> bool(abs(pipeline.run()[0].as_array().mean() - 5) < 0.05)
        True
    """
    if not isinstance(stddev, DataNode) and stddev < 0:
        raise DefinitionError("fn.random.normal: stddev is not negative", given=stddev)
    return draw(
        Normal((), as_dtype(dtype)),
        like=shape_like,
        shape=shape,
        option="mean",
        seed=seed,
        mean=mean,
        stddev=stddev,
    )
