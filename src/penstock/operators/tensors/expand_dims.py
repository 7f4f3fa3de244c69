"""expand_dims: insertion of axes of extent 1."""

from collections.abc import Sequence

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph import DataNode, apply, axis_numbers, operator
from penstock.operators.tensors.reshape import Reshape


@operator("expand_dims")
def expand_dims(data: DataNode, *, axes: int | Sequence[int], new_axis_names: str = "") -> DataNode:
    """Insert axes of extent 1.

    Args:
        data: Any shape, any dtype.
        axes: Positions of the new axes in the result; negative numbers count from the end.
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
    # The axes are those of the result. `axis_numbers` takes an empty list for all axes.
    positions = axis_numbers(numbers, None, Spec(data.dtype, (1,) * ndim)) if numbers else ()
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
