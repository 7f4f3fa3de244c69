"""cat: concatenation along an existing axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from penstock.core import Shape, Spec
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, BatchKernel, DataNode, Input, Operator, apply, axis_numbers, operator
from penstock.operators.tensors.concat_checks import check_alike, joined_extents

# Values with at least one axis.
Axes = Annotated[DataNode, Input(ranks=range(1, 65), fix="fn.stack(...) makes a vector of scalars")]


@dataclass(frozen=True)
class Cat(Operator, BatchKernel):
    """Concatenation of values along an existing axis."""

    axis: int

    def infer(self, *values: Spec) -> Spec:
        """Return the first spec with the sum of the extents along the axis."""
        check_alike(values)
        first = values[0]
        along = [value.shape[self.axis] for value in values]
        others: Shape = joined_extents([_without(value.shape, self.axis) for value in values])
        # One ragged input makes the result ragged along the axis.
        total = None if None in along else sum(extent or 0 for extent in along)
        return Spec(first.dtype, (*others[: self.axis], total, *others[self.axis :]), first.layout)

    def batch(self, context: BatchContext, *values: Any) -> Any:
        """Concatenate the rows of a batch."""
        return context.xp.concatenate(values, axis=self.axis + 1)


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _axis_number(axis: int, name: str | None, spec: Spec) -> int:
    """Return the number of an axis that is set by number or by name.

    Raises:
        DefinitionError: It does not exist, or both `axis` and `axis_name` are set.
    """
    if name is None:
        return axis_numbers([axis], None, spec)[0]
    # 0 is the default of `axis`, so an explicit 0 next to a name goes unnoticed, which is harmless.
    if axis != 0 or len(name) != 1:
        raise DefinitionError(
            "set either axis or axis_name, which is one letter", given=f"axis={axis}, axis_name={name!r}"
        )
    if name not in spec.layout:
        raise DefinitionError(
            f"the layout does not contain axis {name}",
            given=f"axis_name={name!r}, layout {spec.layout!r}",
            fix="axis=..., with a number",
        )
    return spec.layout.index(name)


@operator("cat")
def cat(*inputs: Axes, axis: int = 0, axis_name: str | None = None) -> DataNode:
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
    # Without inputs, `Cat.infer` reports the better error.
    return apply(Cat(_axis_number(axis, axis_name, inputs[0].spec) if inputs else 0), *inputs)
