"""segmentation.random_mask_pixel: a random place in a mask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import Argument, BatchContext, DataNode, HostBatchKernel, Operator, apply, operator
from penstock.numerics.ragged import flattened
from penstock.operators.segmentation.mask_pixel_draw import draw_pixels


@dataclass(frozen=True)
class RandomMaskPixel(Operator, HostBatchKernel):
    """The place of an element."""

    accepts_ragged: ClassVar[bool] = True
    schema: ClassVar[Mapping[str, Argument]] = {
        "foreground": Argument(np.int64),
        "threshold": Argument(np.float64),
        "value": Argument(np.int64),
    }

    @property
    def random_bits(self) -> int:
        """One."""
        return 1

    def infer(self, mask: Spec, **_arguments: Any) -> Spec:
        """A number per axis."""
        if not mask.shape or mask.dtype.kind not in "iufb":
            raise DefinitionError("fn.segmentation.random_mask_pixel takes masks", given=mask, expected="axes, numbers")
        return Spec(np.dtype(np.int64), (len(mask.shape),))

    def batch(
        self, context: BatchContext, mask: Any, *, foreground: Any, threshold: Any = None, value: Any = None
    ) -> Array:
        """Uniform among the foreground, or among all elements, also where there is no foreground."""
        (values, shapes), rows = flattened(mask), context.rows
        counts = shapes.prod(axis=1)
        if not counts.all():
            raise ValueError("the mask is empty")
        if values.dtype == np.bool_ or values.dtype == np.float16:  # what loops cannot compare
            values = values.astype(np.float32)
        none, places = np.zeros(rows), np.empty(rows, np.int64)
        limits, labels = (none if threshold is None else threshold), (none.astype(np.int64) if value is None else value)
        draw_pixels(
            *(values, counts, foreground != 0, np.ascontiguousarray(limits), np.ascontiguousarray(labels)),
            *(value is not None, np.ascontiguousarray(context.bits[:, 0]), places),
        )
        result = np.empty(shapes.shape, np.int64)
        for axis in range(shapes.shape[1] - 1, -1, -1):
            places, result[:, axis] = np.divmod(places, shapes[:, axis])
        return result


@operator("segmentation.random_mask_pixel")
def random_mask_pixel(
    data: DataNode,
    *,
    foreground: int | DataNode = 0,
    threshold: float | DataNode | None = None,
    value: int | DataNode | None = None,
    seed: int = -1,
) -> DataNode:
    """Draw a place in a mask, of the foreground or anywhere.

    Args:
        data: masks, of any number of axes.
        foreground: whether the place is one of the foreground; a number, or a node with one per sample. A mask without
            foreground gives any place.
        threshold: what is greater is foreground, 0 by default; a number, or a node.
        value: what equals it is foreground, instead; likewise.
        seed: a seed for this operator alone; -1 derives it from the pipeline's.

    Returns:
        The place, int64, a number per axis.

    Raises:
        DefinitionError: both `threshold` and `value`, or no mask.

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
        raise DefinitionError("fn.segmentation.random_mask_pixel takes threshold= or value=", given="both")
    arguments: dict[str, Any] = {"foreground": foreground, "threshold": threshold, "value": value}
    given = {name: argument for name, argument in arguments.items() if argument is not None}
    return apply(RandomMaskPixel(), data, seed=seed, **given)
