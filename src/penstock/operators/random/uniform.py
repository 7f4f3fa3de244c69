"""random.uniform: numbers from a range, or from a list of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np

from penstock.core.columns import Array
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.numerics.casting import broadcast_rows, cast_saturating
from penstock.operators.random.random_operator import Extents, RandomOperator, draw
from penstock.types import FLOAT, as_dtype


@dataclass(frozen=True)
class Uniform(RandomOperator):
    """One number per element, between the two of `range` or out of `values`."""

    def batch(self, context: BatchContext, *_like: Any, range: Any = None, values: Any = None) -> Any:  # noqa: A002  # DALI's
        """The draws."""
        xp = context.xp
        draws = self.fractions(context.bits)
        if values is not None:
            if isinstance(values, Sequence):
                options = xp.asarray(_constants(tuple(cast(Sequence[float], values)), self.dtype))
            else:
                options = cast_saturating(xp, xp.asarray(values, np.float32), self.dtype)
            count = options.shape[-1]
            pick = xp.minimum((draws * draws.dtype.type(count)).astype(np.int32), xp.asarray(count - 1, np.int32))
            result = options[pick] if options.ndim == 1 else xp.take_along_axis(options, pick, axis=1)
        else:
            limits = xp.asarray(range, np.float32).astype(draws.dtype)
            low, high = broadcast_rows(xp, limits[..., 0], 2), broadcast_rows(xp, limits[..., 1], 2)
            result = xp.minimum(draws * (high - low) + low, xp.nextafter(high, low))  # rounding may reach the limit
        return cast_saturating(xp, result, self.dtype).reshape(context.rows, *self.shape)


@lru_cache(maxsize=64)
def _constants(values: tuple[float, ...], dtype: np.dtype[Any]) -> Array:
    """What is drawn from where it is the same for all batches."""
    return cast_saturating(np, np.asarray(values, np.float32), dtype)


@operator("random.uniform")
def uniform(
    shape_like: DataNode | None = None,
    *,
    range: Sequence[float] | DataNode | None = None,  # noqa: A002  # DALI's name
    values: Sequence[float] | DataNode | None = None,
    dtype: Any = FLOAT,
    shape: Extents | None = None,
    seed: int = -1,
) -> DataNode:
    """Draw numbers uniformly. Every sample has its own, in every epoch others, whatever the threads, devices or shards.

    Args:
        shape_like: a node, or an array, whose shape the draws of a sample take.
        range: the lower limit and the upper, which is not drawn; [-1, 1) if neither it nor `values` is given. A node
            gives each sample its own two numbers.
        values: numbers to choose from with equal probability; a node gives each sample its own.
        dtype: element type; integers are rounded.
        shape: the shape of a sample; none gives one number. A node gives each sample its own.
        seed: a seed for this operator alone; -1 derives it from the pipeline's. Operators with the same seed and shape
            draw the same numbers.

    Returns:
        A sample of `shape`, in `dtype`.

    Raises:
        DefinitionError: an empty range, both `range` and `values`, a shape that is not whole numbers.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=4, seed=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.random.uniform(range=[0, 10]))
        >>> numbers = pipeline.run()[0].as_array()
        >>> numbers.shape, bool(((numbers >= 0) & (numbers < 10)).all())
        ((4,), True)
    """
    if range is not None and values is not None:
        raise DefinitionError("fn.random.uniform: either range or values", given=f"range={range}, values={values}")
    limits = [-1.0, 1.0] if range is None else range
    if not isinstance(limits, DataNode) and (len(limits) != 2 or not limits[0] < limits[1]):
        raise DefinitionError("fn.random.uniform: range is two numbers, the first less", given=limits)
    if values is not None and not isinstance(values, DataNode) and len(values) == 0:
        raise DefinitionError("fn.random.uniform: values is empty")
    arguments: dict[str, Any] = {"range": limits} if values is None else {"values": values}
    return draw(
        Uniform((), as_dtype(dtype)),
        like=shape_like,
        shape=shape,
        option="range",
        seed=seed,
        **arguments,
    )
