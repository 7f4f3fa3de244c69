"""transpose: the axes in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext, BatchKernel
from penstock.graph.layouts import check_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.steps import ImageInfo, Step, TransposeStep
from penstock.image.image_operator import ImageOperator


@dataclass(frozen=True)
class Transpose(ImageOperator, BatchKernel):
    """A permutation of the axes of a sample."""

    perm: tuple[int, ...]
    layout: str

    def infer(self, data: Spec) -> Spec:
        """The extents in their new order."""
        return Spec(data.dtype, tuple(data.shape[axis] for axis in self.perm), self.layout)

    def describe(self, images: ImageInfo, bits: Any) -> Sequence[Step]:
        """The order."""
        return [TransposeStep(self.perm)]

    def batch(self, context: BatchContext, data: Any) -> Any:
        """The batch, whose first axis stays."""
        return context.xp.transpose(data, (0, *(axis + 1 for axis in self.perm)))


@operator("transpose")
def transpose(
    data: DataNode,
    *,
    perm: Sequence[int] | None = None,
    transpose_layout: bool = True,
    output_layout: str | None = None,
) -> DataNode:
    """Put the axes of a sample into another order.

    Args:
        data: any dtype and shape.
        perm: per axis of the result the number of the input's; reverses the axes by default.
        transpose_layout: whether the names of the axes move with them; else they stay.
        output_layout: names for the axes of the result, instead. It names axes and moves none: that is `perm`'s to do.

    Returns:
        Same elements and dtype.

    Raises:
        DefinitionError: `perm` does not name each axis once.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.zeros((1, 3, 4, 2)), layout="HWC")
        ...     pipeline.set_outputs(fn.transpose(images, perm=[2, 0, 1]))
        >>> pipeline.run()[0].as_array().shape
        (1, 2, 3, 4)
    """
    spec = data.spec
    ndim = len(spec.shape)
    order = tuple(range(ndim))[::-1] if perm is None else tuple(int(axis) for axis in perm)
    if sorted(order) != list(range(ndim)):
        raise DefinitionError(
            "fn.transpose: perm names each axis once", given=perm, expected=f"the numbers 0 to {ndim - 1} in any order"
        )
    moved = "".join(spec.layout[axis] for axis in order) if spec.layout and transpose_layout else spec.layout
    layout = moved if output_layout is None else check_layout(output_layout, spec, ndim, "fn.transpose")
    return apply(Transpose(order, layout), data)
