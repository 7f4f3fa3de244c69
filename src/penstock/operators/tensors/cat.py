"""cat: concatenation along an existing axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.core import Shape, Spec
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, BatchKernel, DataNode, Operator, apply, as_value, operator
from penstock.operators.tensors.concat_checks import check_alike, joined_extents, one_axis


@dataclass(frozen=True)
class Cat(Operator, BatchKernel):
    """Concatenation of values along an existing axis."""

    axis: int

    def infer(self, *values: Spec) -> Spec:
        """Return the first spec with the sum of the extents along the axis."""
        check_alike("cat", values)
        first = values[0]
        if not first.shape:
            raise DefinitionError(
                "fn.cat needs inputs with at least one axis", given="scalars", fix="fn.stack(...) makes a vector"
            )
        along = [value.shape[self.axis] for value in values]
        others: Shape = joined_extents("cat", [_without(value.shape, self.axis) for value in values])
        # One ragged input makes the result ragged along the axis.
        total = None if None in along else sum(extent or 0 for extent in along)
        return Spec(first.dtype, (*others[: self.axis], total, *others[self.axis :]), first.layout)

    def batch(self, context: BatchContext, *values: Any) -> Any:
        """Concatenate the rows of a batch."""
        return context.xp.concatenate(values, axis=self.axis + 1)


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


@operator("cat")
def cat(*inputs: DataNode, axis: int = 0, axis_name: str | None = None) -> DataNode:
    """Concatenate values along an existing axis.

    Args:
        *inputs: Values of one dtype and rank, with equal extents except along the axis.
        axis: Axis of a sample; a negative number counts from the end.
        axis_name: Letter of the axis in the layout, instead of `axis`.

    Returns:
        Values with the layout of the first input and the sum of the extents along the axis.

    Raises:
        DefinitionError: The inputs differ in dtype, rank or another extent, or the axis does not exist.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pairs = fn.readers.arrays([[1, 2], [3, 4]])
        ...     pipeline.set_outputs(fn.cat(pairs, pairs[::-1]))
        >>> pipeline.run()[0].as_array().tolist()
        [[1, 2, 2, 1], [3, 4, 4, 3]]
    """
    specs = [as_value(value).spec for value in inputs]
    # For scalars, `Cat.infer` reports the better error.
    number = one_axis("cat", axis, axis_name, specs[0]) if specs and specs[0].shape else 0
    return apply(Cat(number), *inputs)
