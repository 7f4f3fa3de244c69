"""reductions.sum, mean, mean_square, rms: sums along axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.spec import Spec
from penstock.graph.ir.operator import BatchContext
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.numerics.casting import cast_saturating, result_dtype
from penstock.numerics.ordered_sums import ordered_sum, sum_of_squares
from penstock.operators.reductions.reduction_operator import Reduction, reduced_axes, work_dtype
from penstock.types import FLOAT


@dataclass(frozen=True)
class Sum(Reduction):
    """The sum of the elements."""

    dtype: np.dtype[Any]

    def infer(self, data: Spec) -> Spec:
        """In the type asked for."""
        return self.left(data, self.dtype)

    def batch(self, context: BatchContext, data: Any) -> Any:
        """The sums; integers in the widest type, floats in a fixed order."""
        xp = context.xp
        if data.dtype.kind == "f":
            total = ordered_sum(xp, data.astype(work_dtype(data.dtype)), self.batch_axes)
        else:
            wide = np.dtype(f"{data.dtype.kind}{8 if xp is np else 4}")
            total = xp.sum(data.astype(wide), axis=self.batch_axes, dtype=wide)
        return cast_saturating(xp, self.shaped(data, total), self.dtype)


@dataclass(frozen=True)
class Mean(Reduction):
    """The mean of the elements, or of a power of them.

    Args:
        squared: whether of their squares.
        root: whether the square root is taken of it.
        dtype: of the result.
    """

    squared: bool
    root: bool
    dtype: np.dtype[Any]

    def infer(self, data: Spec) -> Spec:
        """In the type asked for."""
        return self.left(data, self.dtype)

    def batch(self, context: BatchContext, data: Any) -> Any:
        """The means."""
        xp, work = context.xp, work_dtype(data.dtype)
        values = data.astype(work)
        total = (sum_of_squares if self.squared else ordered_sum)(xp, values, self.batch_axes)
        mean = total / xp.asarray(math.prod(data.shape[axis] for axis in self.batch_axes), work)
        return cast_saturating(xp, self.shaped(data, xp.sqrt(mean) if self.root else mean), self.dtype)


@operator("reductions.sum")
def sum(  # noqa: A001  # DALI's name
    data: DataNode,
    *,
    axes: int | Sequence[int] | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
    dtype: Any = None,
) -> DataNode:
    """Add up the elements along axes.

    Args:
        data: numbers, any shape.
        axes: along which; a negative number counts from the end. Without, all axes; [] leaves everything as it is.
        axis_names: their letters in the layout, instead.
        keep_dims: whether the axes stay, with extent 1.
        dtype: element type; None takes int64 or uint64 for integers, and for floats their own.

    Returns:
        Without the axes, or with extent 1 there. What does not fit into `dtype` becomes the nearest value that does.

    Raises:
        DefinitionError: an axis that does not exist or is named twice; truth values.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([[[1, 2], [3, 4]]]))
        ...     pipeline.set_outputs(fn.reductions.sum(numbers), fn.reductions.sum(numbers, axes=0))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[10.0], [[4.0, 6.0]]]
    """
    kind = data.dtype.kind
    own = np.dtype(f"{kind}8") if kind in "iu" else data.dtype
    numbers = reduced_axes("reductions.sum", axes, axis_names, data.spec)
    return apply(Sum("reductions.sum", numbers, keep_dims, result_dtype(own, dtype)), data)


@operator("reductions.mean")
def mean(
    data: DataNode,
    *,
    axes: int | Sequence[int] | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
    dtype: Any = None,
) -> DataNode:
    """Average the elements along axes.

    Args:
        data: numbers, any shape.
        axes: along which; a negative number counts from the end. Without, all axes; [] leaves everything as it is.
        axis_names: their letters in the layout, instead.
        keep_dims: whether the axes stay, with extent 1.
        dtype: element type; None takes float32. Integers are rounded and saturate.

    Returns:
        Without the axes, or with extent 1 there.

    Raises:
        DefinitionError: an axis that does not exist or is named twice; truth values.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([[[1, 2], [3, 4]]]))
        ...     pipeline.set_outputs(fn.reductions.mean(numbers), fn.reductions.mean(numbers, axes=0))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[2.5], [[2.0, 3.0]]]
    """
    numbers = reduced_axes("reductions.mean", axes, axis_names, data.spec)
    element = result_dtype(FLOAT.numpy, dtype)
    return apply(Mean("reductions.mean", numbers, keep_dims, False, False, element), data)


@operator("reductions.mean_square")
def mean_square(
    data: DataNode,
    *,
    axes: int | Sequence[int] | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
    dtype: Any = None,
) -> DataNode:
    """Average the squares of the elements along axes.

    Args:
        data: numbers, any shape.
        axes: along which; a negative number counts from the end. Without, all axes; [] leaves everything as it is.
        axis_names: their letters in the layout, instead.
        keep_dims: whether the axes stay, with extent 1.
        dtype: element type; None takes float32. Integers are rounded and saturate.

    Returns:
        Without the axes, or with extent 1 there.

    Raises:
        DefinitionError: an axis that does not exist or is named twice; truth values.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([[[1, 2], [3, 4]]]))
        ...     pipeline.set_outputs(fn.reductions.mean_square(numbers), fn.reductions.mean_square(numbers, axes=0))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[7.5], [[5.0, 10.0]]]
    """
    numbers = reduced_axes("reductions.mean_square", axes, axis_names, data.spec)
    element = result_dtype(FLOAT.numpy, dtype)
    return apply(Mean("reductions.mean_square", numbers, keep_dims, True, False, element), data)


@operator("reductions.rms")
def rms(
    data: DataNode,
    *,
    axes: int | Sequence[int] | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
    dtype: Any = None,
) -> DataNode:
    """Take the root of the mean square of the elements along axes.

    Args:
        data: numbers, any shape.
        axes: along which; a negative number counts from the end. Without, all axes; [] leaves everything as it is.
        axis_names: their letters in the layout, instead.
        keep_dims: whether the axes stay, with extent 1.
        dtype: element type; None takes float32. Integers are rounded and saturate.

    Returns:
        Without the axes, or with extent 1 there.

    Raises:
        DefinitionError: an axis that does not exist or is named twice; truth values.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([[[1, 7], [7, 1]]]))
        ...     pipeline.set_outputs(fn.reductions.rms(numbers), fn.reductions.rms(numbers, axes=0))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[5.0], [[5.0, 5.0]]]
    """
    numbers = reduced_axes("reductions.rms", axes, axis_names, data.spec)
    element = result_dtype(FLOAT.numpy, dtype)
    return apply(Mean("reductions.rms", numbers, keep_dims, True, True, element), data)
