"""transpose: permutation of axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, BatchKernel, DataNode, apply, check_layout, operator
from penstock.image.describe.steps import ImageInfo, Step, TransposeStep
from penstock.image.image_operator import ImageOperator


@dataclass(frozen=True)
class Transpose(ImageOperator, BatchKernel):
    """Permutation of the axes of a sample."""

    perm: tuple[int, ...]
    layout: str

    def infer(self, data: Spec) -> Spec:
        """Return the spec with permuted extents."""
        return Spec(data.dtype, tuple(data.shape[axis] for axis in self.perm), self.layout)

    def describe(self, images: ImageInfo, bits: Any) -> Sequence[Step]:
        """Return the permutation as a step, so that chains of image operators write directly in the new order."""
        return [TransposeStep(self.perm)]

    def batch(self, context: BatchContext, data: Any) -> Any:
        """Permute all axes but the first, which is that of the batch."""
        return context.xp.transpose(data, (0, *(axis + 1 for axis in self.perm)))


@operator("transpose")
def transpose(
    data: DataNode,
    *,
    perm: Sequence[int] | None = None,
    transpose_layout: bool = True,
    output_layout: str | None = None,
) -> DataNode:
    """Permute the axes of samples.

    Args:
        data: Any shape, any dtype.
        perm: For each axis of the result, the axis of `data`. By default, the order of the axes is reversed.
        transpose_layout: If True, letters of the layout follow their axes. If False, the layout does not change.
        output_layout: Layout of the result. It only names axes and does not permute them; use `perm` for that.

    Returns:
        The permuted samples, same dtype.

    Raises:
        DefinitionError: `perm` does not contain each axis exactly once.

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
            "perm must contain each axis exactly once",
            given=perm,
            expected=f"the numbers 0 to {ndim - 1} in any order",
        )
    permuted = "".join(spec.layout[axis] for axis in order) if spec.layout and transpose_layout else spec.layout
    layout = permuted if output_layout is None else check_layout(output_layout, spec, ndim)
    return apply(Transpose(order, layout), data)
