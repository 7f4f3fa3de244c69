"""random.coin_flip: ones and zeros."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.numerics.casting import broadcast_rows
from penstock.operators.random.random_operator import Extents, RandomOperator, draw, fractions
from penstock.types import INT32, as_dtype


@dataclass(frozen=True)
class CoinFlip(RandomOperator):
    """1 with a probability, else 0."""

    def batch(self, context: BatchContext, *_like: Any, probability: Any) -> Any:
        """The draws."""
        xp = context.xp
        limit = broadcast_rows(xp, xp.asarray(probability, np.float32), 2)
        return (fractions(context.bits) < limit).astype(self.dtype).reshape(context.rows, *self.shape)


@operator("random.coin_flip")
def coin_flip(
    shape_like: DataNode | None = None,
    *,
    probability: float | DataNode = 0.5,
    dtype: Any = INT32,
    shape: Extents | None = None,
    seed: int = -1,
) -> DataNode:
    """Draw 1 with a probability, else 0. Every sample has its own draw, in every epoch another.

    Args:
        shape_like: a node, or an array, whose shape the draws of a sample take.
        probability: of 1, from 0 to 1; a node gives each sample its own.
        dtype: element type.
        shape: the shape of a sample; none gives one number. A node gives each sample its own.
        seed: a seed for this operator alone; -1 derives it from the pipeline's.

    Returns:
        A sample of `shape`, in `dtype`.

    Raises:
        DefinitionError: a probability outside [0, 1], a shape that is not whole numbers.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=3)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.random.coin_flip(probability=1))
        >>> pipeline.run()[0].as_array().tolist()
        [1, 1, 1]
    """
    if not isinstance(probability, DataNode) and not 0 <= probability <= 1:
        raise DefinitionError("fn.random.coin_flip: a probability lies between 0 and 1", given=probability)
    return draw(
        CoinFlip((), as_dtype(dtype)),
        like=shape_like,
        shape=shape,
        option="probability",
        seed=seed,
        probability=probability,
    )
