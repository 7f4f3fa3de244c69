"""reductions.min, max: extreme values along axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.spec import Spec
from penstock.graph.ir.operator import BatchContext
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.reductions.reduction_operator import Reduction, reduced_axes


@dataclass(frozen=True)
class Extreme(Reduction):
    """The least element, or the greatest.

    Args:
        greatest: which of the two.
    """

    greatest: bool

    def infer(self, data: Spec) -> Spec:
        """In the input's type."""
        return self.left(data, data.dtype)

    def batch(self, context: BatchContext, data: Any) -> Any:
        """The extremes. A NaN counts only where there is nothing else."""
        xp = context.xp
        none = self._of_nothing(data.dtype)
        if data.dtype.kind == "f":
            data = xp.where(xp.isnan(data), none, data)
        take = xp.max if self.greatest else xp.min
        return self.shaped(data, take(data, axis=self.batch_axes, initial=none))

    def _of_nothing(self, dtype: np.dtype[Any]) -> Any:
        """The extreme of no elements."""
        if dtype.kind == "f":
            return dtype.type(-np.inf if self.greatest else np.inf)
        return dtype.type(np.iinfo(dtype).min if self.greatest else np.iinfo(dtype).max)


@operator("reductions.min")
def min(  # noqa: A001  # DALI's name
    data: DataNode,
    *,
    axes: int | Sequence[int] | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
) -> DataNode:
    """Take the least element along axes.

    Args:
        data: numbers, any shape.
        axes: along which; a negative number counts from the end. Without, all axes; [] leaves everything as it is.
        axis_names: their letters in the layout, instead.
        keep_dims: whether the axes stay, with extent 1.

    Returns:
        Without the axes, or with extent 1 there. In the input's type.

    Raises:
        DefinitionError: an axis that does not exist or is named twice; truth values.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([[[1, 4], [3, 2]]]))
        ...     pipeline.set_outputs(fn.reductions.min(numbers), fn.reductions.min(numbers, axes=0))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[1.0], [[1.0, 2.0]]]
    """
    numbers = reduced_axes("reductions.min", axes, axis_names, data.spec)
    return apply(Extreme("reductions.min", numbers, keep_dims, False), data)


@operator("reductions.max")
def max(  # noqa: A001  # DALI's name
    data: DataNode,
    *,
    axes: int | Sequence[int] | None = None,
    axis_names: str | None = None,
    keep_dims: bool = False,
) -> DataNode:
    """Take the greatest element along axes.

    Args:
        data: numbers, any shape.
        axes: along which; a negative number counts from the end. Without, all axes; [] leaves everything as it is.
        axis_names: their letters in the layout, instead.
        keep_dims: whether the axes stay, with extent 1.

    Returns:
        Without the axes, or with extent 1 there. In the input's type.

    Raises:
        DefinitionError: an axis that does not exist or is named twice; truth values.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([[[1, 4], [3, 2]]]))
        ...     pipeline.set_outputs(fn.reductions.max(numbers), fn.reductions.max(numbers, axes=0))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[4.0], [[3.0, 4.0]]]
    """
    numbers = reduced_axes("reductions.max", axes, axis_names, data.spec)
    return apply(Extreme("reductions.max", numbers, keep_dims, True), data)
