"""`fn.bb_flip`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core import Spec
from penstock.graph import Argument, BatchContext, BatchKernel, DataNode, Operator, apply, operator
from penstock.operators.boxes.box_checks import check_boxes, corners


@dataclass(frozen=True)
class BoxFlip(Operator, BatchKernel):
    """Mirroring of boxes about the center of the image.

    Args:
        ltrb: If True, boxes are left, top, right, bottom; otherwise left, top, width, height.
    """

    ltrb: bool
    schema: ClassVar[Mapping[str, Argument]] = {"horizontal": Argument(np.int32), "vertical": Argument(np.int32)}

    def infer(self, boxes: Spec, *, horizontal: Any, vertical: Any) -> Spec:
        """Return the spec of the input."""
        check_boxes("bb_flip", boxes)
        return boxes

    def batch(self, context: BatchContext, boxes: Any, *, horizontal: Any, vertical: Any) -> Any:
        """Mirror boxes, in float32."""
        xp, one = context.xp, np.float32(1)
        x, y, right, bottom = corners(boxes)
        flags = [flag.reshape(-1, 1) != 0 for flag in (horizontal, vertical)]
        axes: list[list[Any]] = []
        # Boxes are relative to the image. Mirrored, the far edge becomes the near one: 1 - right, or 1 - (x + width).
        for flag, low, high in zip(flags, (x, y), (right, bottom), strict=True):
            mirrored = (one - high, one - low) if self.ltrb else (one - low - high, high)
            axes.append([xp.where(flag, new, old) for new, old in zip(mirrored, (low, high), strict=True)])
        (x, right), (y, bottom) = axes
        return xp.stack([x, y, right, bottom], axis=-1).reshape(boxes.shape)


@operator("bb_flip")
def bb_flip(
    data: DataNode,
    *,
    horizontal: int | DataNode = 1,
    vertical: int | DataNode = 0,
    ltrb: bool = False,
) -> DataNode:
    """Mirror boxes, as `fn.flip` and `fn.crop_mirror_normalize` mirror their image.

    Args:
        data: Boxes relative to the image, float32 (n, 4): left, top, width, height.
        horizontal: If nonzero, exchange left and right; a number, or a node with one per sample.
        vertical: If nonzero, exchange top and bottom; a number, or a node with one per sample.
        ltrb: If True, boxes are left, top, right, bottom.

    Returns:
        Boxes in the same form.

    Raises:
        ArgumentTypeError: If the dtype is not float32.
        DefinitionError: If the last extent of a sample is not 4.

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
