"""cat, stack: concatenation along an existing axis, or along a new one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from penstock.core import Shape, Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph import BatchContext, BatchKernel, DataNode, Input, Operator, apply, axis_numbers, operator

# Values with at least one axis.
Axes = Annotated[DataNode, Input(ranks=range(1, 65), fix="fn.stack(...) makes a vector of scalars")]


def _check_alike(values: Sequence[Spec]) -> None:
    """Check that there is at least one input and that all have the same dtype and rank.

    Raises:
        DefinitionError: They differ, or there are none.
    """
    inputs = ", ".join(map(str, values))
    if not values:
        raise DefinitionError("there are no inputs", expected="one or more")
    if len({value.dtype for value in values}) > 1:
        raise DefinitionError("inputs must have one dtype", given=inputs, fix="fn.cast(x, dtype=...)")
    if len({len(value.shape) for value in values}) > 1:
        raise DefinitionError("inputs must have one rank", given=inputs, fix="fn.expand_dims(x, axes=...)")


def _joined_extents(shapes: Sequence[Shape]) -> Shape:
    """Return the common shape. An extent is known if at least one shape contains it.

    Raises:
        DefinitionError: Two shapes differ.
    """
    result: list[int | None] = []
    for extents in zip(*shapes, strict=True):
        known = sorted({extent for extent in extents if extent is not None})
        if len(known) > 1:
            raise DefinitionError(
                "the extents of the inputs differ",
                given=f"extents {', '.join(map(str, known))}",
                fix="fn.pad(x, ...), fn.crop(x, ...) or fn.resize(x, ...) before",
            )
        result.append(known[0] if known else None)
    return tuple(result)


@dataclass(frozen=True)
class Cat(Operator, BatchKernel):
    """Concatenation of values along an existing axis."""

    axis: int

    def infer(self, *values: Spec) -> Spec:
        """Return the first spec with the sum of the extents along the axis."""
        _check_alike(values)
        first = values[0]
        along = [value.shape[self.axis] for value in values]
        others: Shape = _joined_extents([value.shape[: self.axis] + value.shape[self.axis + 1 :] for value in values])
        # One ragged input makes the result ragged along the axis.
        total = None if None in along else sum(extent or 0 for extent in along)
        return Spec(first.dtype, (*others[: self.axis], total, *others[self.axis :]), first.layout)

    def batch(self, context: BatchContext, *values: Any) -> Any:
        """Concatenate the rows of a batch."""
        return context.xp.concatenate(values, axis=self.axis + 1)


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
        _check_alike(values)
        first = values[0]
        shape = _joined_extents([value.shape for value in values])
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
        raise DefinitionError("axis is out of range", given=axis, expected=f"a number from {-ndim - 1} to {ndim}")
    if axis_name is not None and len(axis_name) != 1:
        raise DefinitionError("axis_name must be one letter", given=short_repr(axis_name))
    # The result has one axis more than the inputs, which is also what negative numbers refer to.
    return apply(Stack(axis % (ndim + 1), axis_name or ""), *inputs)
