"""reductions.std_dev, variance: the spread of elements about a mean, along axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.numerics.casting import cast_saturating
from penstock.numerics.ordered_sums import sum_of_squares
from penstock.operators.reductions.reduction_operator import Reduction, reduced_axes, work_dtype
from penstock.types import FLOAT


@dataclass(frozen=True)
class Spread(Reduction):
    """The mean square of the distances from a mean, or its root.

    Args:
        ddof: subtracted from the number of elements.
        root: whether the square root is taken.
    """

    ddof: int
    root: bool

    def infer(self, data: Spec, mean: Spec) -> Spec:
        """In float32."""
        kept = self._kept(data.shape)
        if mean.dtype.kind not in "iuf":
            raise DefinitionError(f"fn.{self.kind}: a mean is a number", given=mean)
        squeezed = tuple(extent for extent in mean.shape if extent != 1)
        wanted = tuple(extent for extent in kept if extent != 1)
        known = None not in squeezed and None not in wanted
        if mean.shape and known and math.prod(n or 0 for n in squeezed) not in (1, math.prod(n or 0 for n in wanted)):
            raise DefinitionError(
                f"fn.{self.kind}: the mean has another shape than what is left",
                given=f"{mean} for axes {list(self.axes)} of {data}",
                fix=f"fn.reductions.mean(x, axes={list(self.axes)})",
            )
        return self.left(data, FLOAT.numpy)

    def _kept(self, shape: Sequence[int | None]) -> list[int | None]:
        return [1 if axis in self.axes else extent for axis, extent in enumerate(shape)]

    def batch(self, context: BatchContext, data: Any, mean: Any) -> Any:
        """The spread."""
        xp, work = context.xp, work_dtype(data.dtype)
        single = math.prod(mean.shape[1:]) == 1
        shape = [1] * (data.ndim - 1) if single else [n or 0 for n in self._kept(data.shape[1:])]
        distances = data.astype(work) - mean.astype(work).reshape(context.rows, *shape)
        squares = sum_of_squares(xp, distances, self.batch_axes)
        count = math.prod(data.shape[axis] for axis in self.batch_axes) - self.ddof
        variance = squares / xp.asarray(count, work)
        return cast_saturating(
            xp, self.shaped(data, xp.sqrt(variance) if self.root else variance), np.dtype(np.float32)
        )


@operator("reductions.std_dev")
def std_dev(
    data: DataNode,
    mean: DataNode,
    *,
    axes: int | Sequence[int] | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
    ddof: int = 0,
) -> DataNode:
    """Take the standard deviation of the elements from a mean, along axes.

    Args:
        data: numbers, any shape.
        mean: what `fn.reductions.mean` gives along the same axes, or one number.
        axes: along which; a negative number counts from the end. Without, all axes.
        axis_names: their letters in the layout, instead.
        keep_dims: whether the axes stay, with extent 1.
        ddof: subtracted from the number of elements; 1 gives Bessel's correction.

    Returns:
        float32, without the axes, or with extent 1 there.

    Raises:
        DefinitionError: an axis that does not exist or is named twice; a mean of another shape; truth values.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([[1, 3, 5, 7]]))
        ...     mean = fn.reductions.mean(numbers)
        ...     pipeline.set_outputs(mean, fn.reductions.std_dev(numbers, mean))
        >>> [output.as_array().round(2).tolist() for output in pipeline.run()]
        [[4.0], [2.240000009536743]]
    """
    numbers = reduced_axes("reductions.std_dev", axes, axis_names, data.spec)
    return apply(Spread("reductions.std_dev", numbers, keep_dims, ddof, root=True), data, mean)


@operator("reductions.variance")
def variance(
    data: DataNode,
    mean: DataNode,
    *,
    axes: int | Sequence[int] | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
    ddof: int = 0,
) -> DataNode:
    """Take the variance of the elements about a mean, along axes.

    Args:
        data: numbers, any shape.
        mean: what `fn.reductions.mean` gives along the same axes, or one number.
        axes: along which; a negative number counts from the end. Without, all axes.
        axis_names: their letters in the layout, instead.
        keep_dims: whether the axes stay, with extent 1.
        ddof: subtracted from the number of elements; 1 gives Bessel's correction.

    Returns:
        float32, without the axes, or with extent 1 there.

    Raises:
        DefinitionError: an axis that does not exist or is named twice; a mean of another shape; truth values.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([[1, 3, 5, 7]]))
        ...     pipeline.set_outputs(fn.reductions.variance(numbers, 4.0))
        >>> pipeline.run()[0].as_array().tolist()
        [5.0]
    """
    numbers = reduced_axes("reductions.variance", axes, axis_names, data.spec)
    return apply(Spread("reductions.variance", numbers, keep_dims, ddof, root=False), data, mean)
