"""`fn.bbox_paste`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core import Spec
from penstock.graph import Argument, BatchContext, BatchKernel, DataNode, Operator, apply, operator
from penstock.operators.boxes.box_checks import check_boxes, corners


@dataclass(frozen=True)
class BoxPaste(Operator, BatchKernel):
    """Conversion of boxes to a larger canvas.

    Args:
        ltrb: If True, boxes are left, top, right, bottom; otherwise left, top, width, height.
    """

    ltrb: bool
    schema: ClassVar[Mapping[str, Argument]] = {
        "ratio": Argument(np.float32, low=1),
        "paste_x": Argument(np.float32),
        "paste_y": Argument(np.float32),
    }

    def infer(self, boxes: Spec, *, ratio: Any, paste_x: Any, paste_y: Any) -> Spec:
        """Return the spec of the input."""
        check_boxes("bbox_paste", boxes)
        return boxes

    def batch(self, context: BatchContext, boxes: Any, *, ratio: Any, paste_x: Any, paste_y: Any) -> Any:
        """Scale boxes by 1 / ratio and shift them by the margin, in float32."""
        small = np.float32(1) / ratio
        margin = np.float32(1) - small
        # Positions outside [0, 1] are clipped. DALI 2.4 clips positions above 1 but not negative ones.
        x, y = (context.xp.clip(place, np.float32(0), np.float32(1)) for place in (paste_x, paste_y))
        left, top, small = (term.reshape(-1, 1) for term in (margin * x, margin * y, small))
        x, y, *rest = corners(boxes)
        ends = [rest[0] * small + left, rest[1] * small + top] if self.ltrb else [size * small for size in rest]
        return context.xp.stack([x * small + left, y * small + top, *ends], axis=-1).reshape(boxes.shape)


@operator("bbox_paste")
def bbox_paste(
    data: DataNode,
    *,
    ratio: float | DataNode,
    paste_x: float | DataNode = 0.5,
    paste_y: float | DataNode = 0.5,
    ltrb: bool = False,
) -> DataNode:
    """Move boxes, as `fn.paste` pastes their image on a larger canvas.

    Args:
        data: Boxes relative to the image, float32 (n, 4): left, top, width, height.
        ratio: Size of the canvas relative to the image, at least 1; a number, or a node with one per sample.
        paste_x: Horizontal position of the image, from 0 (left) to 1 (right), clipped; a number, or a node.
        paste_y: Vertical position of the image, from 0 (top) to 1 (bottom), clipped; a number, or a node.
        ltrb: If True, boxes are left, top, right, bottom.

    Returns:
        Boxes relative to the canvas, in the same form.

    Raises:
        ArgumentTypeError: If the dtype is not float32.
        DefinitionError: If the last extent of a sample is not 4, or a ratio is below 1.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     boxes = fn.readers.arrays(np.float32([[[0, 0.5, 0.25, 0.5]]]))
        ...     pipeline.set_outputs(fn.bbox_paste(boxes, ratio=2, paste_x=1))
        >>> pipeline.run()[0].as_array().tolist()
        [[[0.5, 0.5, 0.125, 0.25]]]
    """
    return apply(BoxPaste(bool(ltrb)), data, ratio=ratio, paste_x=paste_x, paste_y=paste_y)
