"""Operator that moves boxes to a larger canvas."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.graph import Argument, DataNode, apply, operator
from penstock.operators.boxes.box_operator import AnyBoxes, BoxOperator


@dataclass(frozen=True)
class BoxPaste(BoxOperator):
    """Conversion of boxes to a larger canvas."""

    def move(self, xp: Any, left: Any, top: Any, *ends: Any, ratio: Any, paste_x: Any, paste_y: Any) -> Sequence[Any]:
        """Scale boxes by 1 / ratio and shift them by the margin."""
        small = np.float32(1) / ratio
        margin = np.float32(1) - small
        # Positions outside [0, 1] are clipped. DALI 2.4 clips positions above 1 but not negative ones.
        x, y = (xp.clip(place, np.float32(0), np.float32(1)) for place in (paste_x, paste_y))
        x, y, small = (term.reshape(-1, 1) for term in (margin * x, margin * y, small))
        end_x, end_y = (end * small for end in ends)
        return left * small + x, top * small + y, *((end_x + x, end_y + y) if self.ltrb else (end_x, end_y))


@operator("bbox_paste")
def bbox_paste(
    data: AnyBoxes,
    *,
    ratio: Annotated[float | DataNode, Argument(np.float32, low=1)],
    paste_x: Annotated[float | DataNode, Argument(np.float32)] = 0.5,
    paste_y: Annotated[float | DataNode, Argument(np.float32)] = 0.5,
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
        DefinitionError: The dtype is not float32, the last extent of a sample is not 4, or a ratio is below 1.

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
