"""random.normal: numbers from the normal distribution."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Unpack

from penstock.graph import BatchContext, DataNode, DType, Range, operator
from penstock.numerics.casting import cast_saturating
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.random.random_operator import DrawArguments, RandomOperator, draw, number_dtype, parameter_rows
from penstock.types import FLOAT


@dataclass(frozen=True)
class Normal(RandomOperator):
    """Normal variates by Box and Muller's transform (1958): two uniform variates become two normal ones."""

    @property
    def words(self) -> int:
        """Number of draws: one per element, rounded up to pairs."""
        return super().words + super().words % 2

    def batch(self, context: BatchContext, *_like: Any, mean: Any, stddev: Any) -> Any:
        """Draw the numbers."""
        xp, count = context.xp, math.prod(self.shape)
        draws = self.fractions(context.bits)
        number = draws.dtype.type
        # Half-open draws include 0, and the logarithm needs a positive number.
        above_zero = draws[:, ::2] + number(2**-53 if self.wide else 2**-24)
        angles = draws[:, 1::2] * number(2 * math.pi)
        radius = xp.sqrt(number(-2) * xp.log(above_zero))
        normal = xp.concatenate([radius * xp.cos(angles), radius * xp.sin(angles)], axis=1)[:, :count]
        center, spread = parameter_rows(xp, draws.dtype, mean, stddev)
        return cast_saturating(xp, normal * spread + center, self.dtype).reshape(context.rows, *self.shape)


@operator("random.normal")
@rounds_to_bfloat16
def normal(
    shape_like: DataNode | None = None,
    *,
    mean: float | DataNode = 0.0,
    stddev: Annotated[float | DataNode, Range(0)] = 1.0,
    dtype: DType = FLOAT,
    **arguments: Unpack[DrawArguments],
) -> DataNode:
    """Draw numbers from the normal distribution.

    Samples are independent and change with the epoch. A sample's draws do not depend on threads, devices, processes or
    shards.

    Args:
        shape_like: A node or array. Each sample of the result has the shape of its sample; the values are ignored.
        mean: Mean of the distribution. A node sets it per sample.
        stddev: Standard deviation, not negative. A node sets it per sample.
        dtype: Element type, not BOOL. Integers are rounded and saturate.
        **arguments: See `DrawArguments`.

    Returns:
        Samples of `shape`, of type `dtype`.

    Raises:
        DefinitionError: `stddev` is negative, `dtype` is BOOL, or `shape` is not a list of positive integers.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=100, seed=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.random.normal(mean=5.0, shape=100))
        >>> bool(abs(pipeline.run()[0].as_array().mean() - 5) < 0.05)
        True
    """
    kernel = Normal((), number_dtype(dtype))
    return draw(kernel, like=shape_like, option="mean", arguments=arguments, mean=mean, stddev=stddev)
