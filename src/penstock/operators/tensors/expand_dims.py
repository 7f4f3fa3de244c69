"""expand_dims: with new axes of extent 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph.ir.operator import BatchContext, Operator, ViewKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode


@dataclass(frozen=True)
class ExpandDims(Operator, ViewKernel):
    """The same elements with more axes.

    Args:
        axes: the places of the new axes among those of the result, in ascending order.
        names: their letters, or "".
    """

    axes: tuple[int, ...]
    names: str

    def infer(self, data: Spec) -> Spec:
        """The input's axes, with the new ones between them."""
        if self.names and data.shape and not data.layout:
            raise DefinitionError(
                "fn.expand_dims: new axes have names where the others have",
                given=f"new_axis_names={self.names!r} for {data}",
                fix='fn.reshape(x, layout="...") before',
            )
        shape, layout = list(data.shape), list(data.layout if self.names or not self.axes else "")
        for at, axis in enumerate(self.axes):
            shape.insert(axis, 1)
            layout.insert(axis, self.names[at : at + 1])
        return Spec(data.dtype, tuple(shape), "".join(layout))

    def batch(self, context: BatchContext, data: Any) -> Any:
        """The same elements."""
        return context.xp.expand_dims(data, tuple(axis + 1 for axis in self.axes))


@operator("expand_dims")
def expand_dims(data: DataNode, *, axes: int | Sequence[int], new_axis_names: str = "") -> DataNode:
    """Insert axes of extent 1.

    Args:
        data: any shape, any dtype.
        axes: the places of the new axes among those of the result; a negative number counts from the end.
        new_axis_names: a letter for each of them; without, the axes of the result have no names.

    Returns:
        The same elements in the same order.

    Raises:
        DefinitionError: a place that is out of range or given twice, or another number of letters.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays([3, 4])
        ...     pipeline.set_outputs(fn.expand_dims(numbers, axes=0))
        >>> pipeline.run()[0].as_array().tolist()
        [[3], [4]]
    """
    numbers: list[int] = np.atleast_1d(np.asarray(axes)).tolist()
    ndim = data.ndim + len(numbers)
    if not all(-ndim <= axis < ndim for axis in numbers) or len({axis % ndim for axis in numbers}) < len(numbers):
        raise DefinitionError(
            "fn.expand_dims: axes names places among the axes of the result, each once",
            given=axes,
            expected=f"numbers from {-ndim} to {ndim - 1}",
        )
    if new_axis_names and len(new_axis_names) != len(numbers):
        raise DefinitionError(
            "fn.expand_dims: new_axis_names has a letter for each new axis",
            given=short_repr(new_axis_names),
            expected=f"{len(numbers)} letters",
        )
    places = [axis % ndim for axis in numbers]
    order = sorted(range(len(places)), key=places.__getitem__)
    names = "".join(new_axis_names[at] for at in order) if new_axis_names else ""
    return apply(ExpandDims(tuple(sorted(places)), names), data)
