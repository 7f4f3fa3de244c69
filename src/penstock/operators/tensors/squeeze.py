"""squeeze: removal of axes of extent 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, DataNode, Operator, ViewKernel, apply, axis_numbers, operator


@dataclass(frozen=True)
class Squeeze(Operator, ViewKernel):
    """Removal of axes of extent 1."""

    axes: tuple[int, ...]

    def infer(self, data: Spec) -> Spec:
        """Return the spec without the axes."""
        # An unknown extent is checked by `batch`: NumPy refuses to remove a longer axis.
        wrong = [axis for axis in self.axes if data.shape[axis] not in (1, None)]
        if wrong:
            raise DefinitionError(
                "only axes of extent 1 can be removed",
                given=f"axes {wrong} of samples of shape {list(data.shape)}",
            )
        kept = [axis for axis in range(len(data.shape)) if axis not in self.axes]
        layout = "".join(data.layout[axis] for axis in kept) if data.layout else ""
        return Spec(data.dtype, tuple(data.shape[axis] for axis in kept), layout)

    def batch(self, context: BatchContext, data: Any) -> Any:
        """Remove the axes, which are counted after that of the batch."""
        return data.squeeze(tuple(axis + 1 for axis in self.axes))


@operator("squeeze")
def squeeze(data: DataNode, *, axes: int | Sequence[int] | None = None, axis_names: str | None = None) -> DataNode:
    """Remove axes of extent 1.

    Args:
        data: Any shape, any dtype.
        axes: Axes to remove; negative numbers count from the end.
        axis_names: Axes to remove as letters of the layout, instead of `axes`.

    Returns:
        The same elements with the remaining axes.

    Raises:
        DefinitionError: An axis does not exist or has another extent, or not exactly one of the arguments is set.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     labels = fn.readers.arrays([[3], [4]])
        ...     pipeline.set_outputs(fn.squeeze(labels, axes=0))
        >>> pipeline.run()[0].as_array().tolist()
        [3, 4]
    """
    if (axes is None) == (axis_names is None):
        raise DefinitionError(
            "set either axes or axis_names", given=f"axes={axes}, axis_names={axis_names}", fix="axes=0"
        )
    # `axis_numbers` takes an empty list for all axes.
    numbers = axis_numbers(axes, axis_names, data.spec) if axes != [] else ()
    return apply(Squeeze(numbers), data)
