"""random.coin_flip: random ones and zeros with a given probability."""

from dataclasses import dataclass
from typing import Annotated, Any, Unpack

import numpy as np

from penstock.graph import BatchContext, DataNode, DType, Range, operator
from penstock.numerics.casting import broadcast_rows
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.random.random_operator import DrawArguments, RandomOperator, draw, fractions
from penstock.types import INT32, as_dtype


@dataclass(frozen=True)
class CoinFlip(RandomOperator):
    """Bernoulli draws: 1 with a probability, otherwise 0."""

    def batch(self, context: BatchContext, *_like: Any, probability: Any) -> Any:
        """Draw the numbers."""
        xp = context.xp
        limit = broadcast_rows(xp, xp.asarray(probability, np.float32), 2)
        # Fractions are below 1, so a probability of 1 always gives 1, and 0 always gives 0.
        return (fractions(context.bits) < limit).astype(self.dtype).reshape(context.rows, *self.shape)


@operator("random.coin_flip")
@rounds_to_bfloat16
def coin_flip(
    shape_like: DataNode | None = None,
    *,
    probability: Annotated[float | DataNode, Range(0, 1)] = 0.5,
    dtype: DType = INT32,
    **arguments: Unpack[DrawArguments],
) -> DataNode:
    """Draw 1 with a probability, otherwise 0.

    Samples are independent and change with the epoch. A sample's draws do not depend on threads, devices, processes or
    shards.

    Args:
        shape_like: A node or array. Each sample of the result has the shape of its sample; the values are ignored.
        probability: Probability of 1, from 0 to 1. A node sets it per sample.
        dtype: Element type.
        **arguments: See `DrawArguments`.

    Returns:
        Samples of `shape`, of type `dtype`.

    Raises:
        DefinitionError: `probability` is outside [0, 1], or `shape` is not a list of positive integers.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=3)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.random.coin_flip(probability=1))
        >>> pipeline.run()[0].as_array().tolist()
        [1, 1, 1]
    """
    kernel = CoinFlip((), as_dtype(dtype))
    return draw(kernel, like=shape_like, option="probability", arguments=arguments, probability=probability)
