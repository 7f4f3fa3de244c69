"""expand_dims: insertion of axes of extent 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph import BatchContext, DataNode, Operator, ViewKernel, apply, operator


@dataclass(frozen=True)
class ExpandDims(Operator, ViewKernel):
    """Insertion of axes of extent 1.

    Args:
        axes: Positions of the new axes in the result, ascending.
        names: Letter of each new axis, or "" for none.
    """

    axes: tuple[int, ...]
    names: str

    def infer(self, data: Spec) -> Spec:
        """Return the spec with the new axes."""
        if self.names and data.shape and not data.layout:
            raise DefinitionError(
                "new_axis_names needs an input with a layout",
                given=f"new_axis_names={self.names!r} for {data}",
                fix='fn.reshape(x, layout="...") before',
            )
        # A layout names all axes or none, so unnamed new axes clear it, as in DALI.
        shape, layout = list(data.shape), list(data.layout if self.names or not self.axes else "")
        for number, axis in enumerate(self.axes):
            # Positions refer to the result and ascend, so earlier insertions do not shift later ones.
            shape.insert(axis, 1)
            layout.insert(axis, self.names[number : number + 1])
        return Spec(data.dtype, tuple(shape), "".join(layout))

    def batch(self, context: BatchContext, data: Any) -> Any:
        """Insert the axes behind that of the batch."""
        return context.xp.expand_dims(data, tuple(axis + 1 for axis in self.axes))


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
    numbers: list[int] = np.atleast_1d(np.asarray(axes)).tolist()
    ndim = data.ndim + len(numbers)
    if not all(-ndim <= axis < ndim for axis in numbers) or len({axis % ndim for axis in numbers}) < len(numbers):
        raise DefinitionError(
            "axes must be distinct positions in the result",
            given=axes,
            expected=f"numbers from {-ndim} to {ndim - 1}",
        )
    if new_axis_names and len(new_axis_names) != len(numbers):
        raise DefinitionError(
            "new_axis_names needs one letter per new axis",
            given=short_repr(new_axis_names),
            expected=f"{len(numbers)} letters",
        )
    positions = [axis % ndim for axis in numbers]
    order = sorted(range(len(positions)), key=positions.__getitem__)
    names = "".join(new_axis_names[index] for index in order) if new_axis_names else ""
    return apply(ExpandDims(tuple(sorted(positions)), names), data)
