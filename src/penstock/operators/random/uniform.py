"""random.uniform: uniform random numbers from a range or from a list of values."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Unpack, cast

import numpy as np

from penstock.core import Array
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, DataNode, DType, operator
from penstock.numerics.casting import broadcast_rows, cast_saturating
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.random.random_operator import DrawArguments, RandomOperator, draw, number_dtype
from penstock.types import FLOAT


@dataclass(frozen=True)
class Uniform(RandomOperator):
    """Uniform draws from a half-open range, or from a list of values."""

    def batch(self, context: BatchContext, *_like: Any, range: Any = None, values: Any = None) -> Any:  # noqa: A002  # DALI's
        """Draw the numbers."""
        xp = context.xp
        draws = self.fractions(context.bits)
        if values is not None:
            if isinstance(values, Sequence):
                options = xp.asarray(_constants(tuple(cast(Sequence[float], values)), self.dtype))
            else:
                options = cast_saturating(xp, xp.asarray(values, np.float32), self.dtype)
            # The product with a draw just below 1 may round up to `count`.
            count = options.shape[-1]
            pick = xp.minimum((draws * draws.dtype.type(count)).astype(np.int32), xp.asarray(count - 1, np.int32))
            result = options[pick] if options.ndim == 1 else xp.take_along_axis(options, pick, axis=1)
        else:
            limits = xp.asarray(range, np.float32).astype(draws.dtype)
            # DALI converts the limits to the dtype, draws floats between them, and rounds those.
            limits = xp.trunc(limits) if self.dtype.kind in "iu" else limits
            low, high = broadcast_rows(xp, limits[..., 0], 2), broadcast_rows(xp, limits[..., 1], 2)
            # Rounding may reach the upper limit, which is excluded.
            result = xp.minimum(draws * (high - low) + low, xp.nextafter(high, low))
        return cast_saturating(xp, result, self.dtype).reshape(context.rows, *self.shape)


@lru_cache(maxsize=64)
def _constants(values: tuple[float, ...], dtype: np.dtype[Any]) -> Array:
    """Return constant `values` as an array, converted once for all batches."""
    return cast_saturating(np, np.asarray(values, np.float32), dtype)


@operator("random.uniform")
@rounds_to_bfloat16
def uniform(
    shape_like: DataNode | None = None,
    *,
    range: tuple[float, float] | DataNode | None = None,  # noqa: A002  # DALI's name
    values: Sequence[float] | DataNode | None = None,
    dtype: DType = FLOAT,
    **arguments: Unpack[DrawArguments],
) -> DataNode:
    """Draw uniformly distributed numbers.

    Samples are independent and change with the epoch. A sample's draws do not depend on threads, devices, processes or
    shards.

    Args:
        shape_like: A node or array. Each sample of the result has the shape of its sample; the values are ignored.
        range: Lower limit, and upper limit, which is excluded before rounding; [-1, 1) if neither `range` nor `values`
            is set. A node contains two numbers per sample.
        values: Numbers to choose from with equal probability. A node sets them per sample.
        dtype: Element type, not BOOL. For integers, limits are truncated and numbers between them rounded, as in DALI,
            so that the limits are half as frequent as the integers between them.
        **arguments: See `DrawArguments`.
        seed: Seed of this operator; -1 derives one from the pipeline's seed. Operators with the same seed and shape
            draw the same numbers.

    Returns:
        Samples of `shape`, of type `dtype`.

    Raises:
        DefinitionError: The range is empty, both `range` and `values` are set, `dtype` is BOOL, or `shape` is not a
            list of positive integers.

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
        raise DefinitionError("range and values cannot be combined", given=f"range={range}, values={values}")
    limits = [-1.0, 1.0] if range is None else range
    if not isinstance(limits, DataNode) and not limits[0] < limits[1]:
        raise DefinitionError("the first number of range must be less than the second", given=limits)
    if values is not None and not isinstance(values, DataNode) and len(values) == 0:
        raise DefinitionError("values must not be empty")
    options: dict[str, Any] = {"range": limits} if values is None else {"values": values}
    return draw(Uniform((), number_dtype(dtype)), like=shape_like, option="range", arguments=arguments, **options)
