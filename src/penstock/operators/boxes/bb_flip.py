"""bb_flip: mirror boxes with their image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.spec import Spec
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.boxes.box_checks import check_boxes, corners


@dataclass(frozen=True)
class BoxFlip(Operator, BatchKernel):
    """Boxes mirrored about the middle of the image.

    Args:
        ltrb: whether a box is two corners; else a corner and its size.
    """

    ltrb: bool
    schema: ClassVar[Mapping[str, Argument]] = {"horizontal": Argument(np.int32), "vertical": Argument(np.int32)}

    def infer(self, boxes: Spec, *, horizontal: Any, vertical: Any) -> Spec:
        """The input's."""
        check_boxes("bb_flip", boxes)
        return boxes

    def batch(self, context: BatchContext, boxes: Any, *, horizontal: Any, vertical: Any) -> Any:
        """In float32: 1 - x - width, or 1 - right and 1 - left."""
        xp, one = context.xp, np.float32(1)
        x, y, right, bottom = corners(boxes)
        flags = [flag.reshape(-1, 1) != 0 for flag in (horizontal, vertical)]
        made: list[list[Any]] = []
        for flag, low, high in zip(flags, (x, y), (right, bottom), strict=True):
            mirrored = (one - high, one - low) if self.ltrb else (one - low - high, high)
            made.append([xp.where(flag, new, old) for new, old in zip(mirrored, (low, high), strict=True)])
        (x, right), (y, bottom) = made
        return xp.stack([x, y, right, bottom], axis=-1).reshape(boxes.shape)


@operator("bb_flip")
def bb_flip(
    data: DataNode,
    *,
    horizontal: int | DataNode = 1,
    vertical: int | DataNode = 0,
    ltrb: bool = False,
) -> DataNode:
    """Mirror boxes as `flip` and `crop_mirror_normalize` mirror their image.

    Args:
        data: boxes relative to the image, float32 (n, 4): left, top, width and height.
        horizontal: whether left and right are exchanged; a number, or a node with one per sample.
        vertical: whether top and bottom are; likewise.
        ltrb: whether a box is left, top, right and bottom.

    Returns:
        The boxes in the same form.

    Raises:
        ArgumentTypeError: another dtype than float32.
        DefinitionError: a sample's last extent is not 4.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     boxes = fn.readers.arrays(np.float32([[[0, 0, 0.25, 0.5]]]))
        ...     pipeline.set_outputs(fn.bb_flip(boxes))
        >>> pipeline.run()[0].as_array().tolist()
        [[[0.75, 0.0, 0.25, 0.5]]]
    """
    return apply(BoxFlip(bool(ltrb)), data, horizontal=horizontal, vertical=vertical)
