"""Operator that draws a random pixel of a mask."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import Argument, BatchContext, DataNode, HostBatchKernel, Input, Operator, apply, operator
from penstock.numerics.ragged import flattened
from penstock.operators.segmentation.mask_pixel_draw import draw_pixels


@dataclass(frozen=True)
class RandomMaskPixel(Operator, HostBatchKernel):
    """Position of a random pixel."""

    accepts_ragged: ClassVar[bool] = True

    @property
    def random_bits(self) -> int:
        """One word."""
        return 1

    def infer(self, mask: Spec, **_arguments: Any) -> Spec:
        """Return the spec of one number per axis."""
        return Spec(np.dtype(np.int64), (len(mask.shape),))

    def batch(self, context: BatchContext, mask: Any, *, foreground: Any, threshold: Any, value: Any = None) -> Array:
        """Draw uniformly from the foreground, or from all elements if there is no foreground."""
        values, shapes = flattened(mask)
        counts = shapes.prod(axis=1)
        if not counts.all():
            raise ValueError("the mask is empty")
        # Compiled loops cannot compare these dtypes.
        if values.dtype in (np.bool_, np.float16):
            values = values.astype(np.float32)
        labels, places = np.zeros(context.rows, np.int64) if value is None else value, np.empty(context.rows, np.int64)
        draw_pixels(
            *(values, counts, foreground != 0, np.ascontiguousarray(threshold), np.ascontiguousarray(labels)),
            *(value is not None, np.ascontiguousarray(context.bits[:, 0]), places),
        )
        result = np.empty(shapes.shape, np.int64)
        for axis in range(shapes.shape[1] - 1, -1, -1):
            places, result[:, axis] = np.divmod(places, shapes[:, axis])
        return result


@operator("segmentation.random_mask_pixel")
def random_mask_pixel(
    data: Annotated[DataNode, Input(("number", "bool"), ranks=range(1, 65), needs="masks")],
    *,
    foreground: Annotated[int | DataNode, Argument(np.int64)] = 0,
    threshold: Annotated[float | DataNode | None, Argument(np.float64)] = None,
    value: Annotated[int | DataNode | None, Argument(np.int64)] = None,
    seed: int = -1,
) -> DataNode:
    """Draw the position of a random pixel of a mask, optionally of its foreground.

    Args:
        data: Masks with any number of axes.
        foreground: If nonzero, draw from the foreground, or from all pixels of a mask without one; a number, or a node
            with one per sample.
        threshold: Pixels of greater value are foreground, 0 by default; a number, or a node with one per sample.
        value: Pixels of this value are foreground, instead of `threshold`; a number, or a node with one per sample.
        seed: Seed of this operator; -1 derives it from the seed of the pipeline.

    Returns:
        Position of the pixel, int64, one number per axis.

    Raises:
        DefinitionError: You pass both `threshold` and `value`, or the input is not a mask.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     masks = fn.readers.arrays(np.eye(3, dtype=np.uint8)[None])
        ...     pipeline.set_outputs(fn.segmentation.random_mask_pixel(masks, foreground=1))
        >>> row, column = pipeline.run()[0].as_array()[0]
        >>> bool(row == column)
        True
    """
    if threshold is not None and value is not None:
        raise DefinitionError("threshold and value cannot be combined", given="both")
    label: dict[str, Any] = {} if value is None else {"value": value}
    limit = 0.0 if threshold is None else threshold
    return apply(RandomMaskPixel(), data, seed=seed, foreground=foreground, threshold=limit, **label)
