"""stack: values joined along a new axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.core.spec import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode, as_value
from penstock.operators.tensors.concat_checks import check_alike, joined_extents


@dataclass(frozen=True)
class Stack(Operator, BatchKernel):
    """Values side by side along an axis that they do not have.

    Args:
        axis: its number in the result.
        name: its letter, or "".
    """

    axis: int
    name: str

    def infer(self, *values: Spec) -> Spec:
        """One axis more, as long as there are inputs."""
        check_alike("stack", values)
        first = values[0]
        shape = joined_extents("stack", [value.shape for value in values])
        layout = first.layout
        if self.name and layout == "" and shape:
            raise DefinitionError(
                "fn.stack: a new axis has a name where the others have",
                given=f"axis_name={self.name!r} for {first}",
                fix='fn.reshape(x, layout="...") before',
            )
        named = layout[: self.axis] + self.name + layout[self.axis :] if self.name else ""
        return Spec(first.dtype, (*shape[: self.axis], len(values), *shape[self.axis :]), named)

    def batch(self, context: BatchContext, *values: Any) -> Any:
        """The joined batch."""
        return context.xp.stack(values, axis=self.axis + 1)


@operator("stack")
def stack(*inputs: DataNode, axis: int = 0, axis_name: str | None = None) -> DataNode:
    """Join values along a new axis.

    Args:
        *inputs: of one dtype and shape.
        axis: the place of the new axis among those of the result; a negative number counts from the end.
        axis_name: its letter, for inputs whose axes have names; without it, those of the result have none.

    Returns:
        One axis more than the inputs have, as long as there are inputs.

    Raises:
        DefinitionError: the inputs differ in dtype or shape, or the axis is out of range.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays([1, 2])
        ...     pipeline.set_outputs(fn.stack(numbers, numbers * 10))
        >>> pipeline.run()[0].as_array().tolist()
        [[1, 10], [2, 20]]
    """
    ndim = len(as_value(inputs[0]).spec.shape) if inputs else 0
    if not -ndim - 1 <= axis <= ndim:
        raise DefinitionError(
            "fn.stack: the new axis is out of range", given=axis, expected=f"a number from {-ndim - 1} to {ndim}"
        )
    if axis_name is not None and len(axis_name) != 1:
        raise DefinitionError("fn.stack: axis_name is one letter", given=short_repr(axis_name))
    return apply(Stack(axis % (ndim + 1), axis_name or ""), *inputs)
