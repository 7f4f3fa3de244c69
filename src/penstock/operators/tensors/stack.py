"""stack: stacking along a new axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.core import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph import BatchContext, BatchKernel, DataNode, Operator, apply, operator
from penstock.operators.tensors.concat_checks import check_alike, joined_extents


@dataclass(frozen=True)
class Stack(Operator, BatchKernel):
    """Stacking of values along a new axis.

    Args:
        axis: Position of the new axis in the result.
        name: Letter of the new axis, or "" for none.
    """

    axis: int
    name: str

    def infer(self, *values: Spec) -> Spec:
        """Return the spec with the new axis."""
        check_alike(values)
        first = values[0]
        shape = joined_extents([value.shape for value in values])
        layout = first.layout
        if self.name and layout == "" and shape:
            raise DefinitionError(
                "axis_name requires inputs with a layout",
                given=f"axis_name={self.name!r} for {first}",
                fix='fn.reshape(x, layout="...") before',
            )
        # A layout names all axes or none, so an unnamed new axis clears it.
        named = layout[: self.axis] + self.name + layout[self.axis :] if self.name else ""
        return Spec(first.dtype, (*shape[: self.axis], len(values), *shape[self.axis :]), named)

    def batch(self, context: BatchContext, *values: Any) -> Any:
        """Stack the rows of a batch."""
        return context.xp.stack(values, axis=self.axis + 1)


@operator("stack")
def stack(*inputs: DataNode, axis: int = 0, axis_name: str | None = None) -> DataNode:
    """Stack values along a new axis.

    Args:
        *inputs: Values of one dtype and shape.
        axis: Position of the new axis in the result; a negative number counts from the end.
        axis_name: Letter of the new axis, for inputs with a layout. By default, the result has no layout.

    Returns:
        Values with one more axis; its extent is the number of inputs.

    Raises:
        DefinitionError: The inputs differ in dtype or shape, or the axis is out of range.

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
    ndim = inputs[0].ndim if inputs else 0
    if not -ndim - 1 <= axis <= ndim:
        raise DefinitionError(
            "the new axis is out of range", given=axis, expected=f"a number from {-ndim - 1} to {ndim}"
        )
    if axis_name is not None and len(axis_name) != 1:
        raise DefinitionError("axis_name must be one letter", given=short_repr(axis_name))
    # The result has one axis more than the inputs, which is also what negative numbers refer to.
    return apply(Stack(axis % (ndim + 1), axis_name or ""), *inputs)
