"""expand_dims: insertion of axes of extent 1."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from penstock.errors import DefinitionError, short_repr
from penstock.graph import DataNode, Range, apply, operator
from penstock.operators.tensors.reshape import Reshape


@operator("expand_dims")
def expand_dims(
    data: DataNode, *, axes: Annotated[int | Sequence[int], Range(0)], new_axis_names: str = ""
) -> DataNode:
    """Insert axes of extent 1.

    Args:
        data: Any shape, any dtype.
        axes: Positions of the new axes in the result, from 0.
        new_axis_names: One letter for each new axis. By default, the result has no layout.

    Returns:
        The same elements in the same order.

    Raises:
        DefinitionError: A position is out of range or occurs twice, or the number of letters does not match.

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
    numbers: list[int] = np.atleast_1d(axes).tolist()
    ndim = data.ndim + len(numbers)
    positions = tuple(numbers)
    if len(set(positions)) < len(positions) or max(positions, default=0) >= ndim:
        raise DefinitionError("axes must name each axis once", given=axes, expected=f"numbers from 0 to {ndim - 1}")
    if new_axis_names and len(new_axis_names) != len(numbers):
        raise DefinitionError(
            "new_axis_names must have one letter per new axis",
            given=short_repr(new_axis_names),
            expected=f"{len(numbers)} letters",
        )
    if new_axis_names and data.ndim and not data.layout:
        raise DefinitionError(
            "new_axis_names requires an input with a layout",
            given=f"new_axis_names={new_axis_names!r} for {data.spec}",
            fix='fn.reshape(x, layout="...") before',
        )
    own_axes = iter(range(data.ndim))
    source = tuple(-1 if axis in positions else next(own_axes) for axis in range(ndim))
    # A layout names all axes or none, so unnamed new axes clear it, as in DALI.
    layout = "" if numbers else data.layout
    if new_axis_names:
        names = dict(zip(positions, new_axis_names, strict=True))
        layout = "".join(names[axis] if axis in names else data.layout[own] for axis, own in enumerate(source))
    return apply(Reshape(None, False, source, layout), data)
