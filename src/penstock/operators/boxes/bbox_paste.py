"""bbox_paste: move boxes with an image that is pasted on a larger canvas."""

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
class BoxPaste(Operator, BatchKernel):
    """Boxes on a larger canvas.

    Args:
        ltrb: whether a box is two corners; else a corner and its size.
    """

    ltrb: bool
    schema: ClassVar[Mapping[str, Argument]] = {
        "ratio": Argument(np.float32, low=1),
        "paste_x": Argument(np.float32),
        "paste_y": Argument(np.float32),
    }

    def infer(self, boxes: Spec, *, ratio: Any, paste_x: Any, paste_y: Any) -> Spec:
        """The input's."""
        check_boxes("bbox_paste", boxes)
        return boxes

    def batch(self, context: BatchContext, boxes: Any, *, ratio: Any, paste_x: Any, paste_y: Any) -> Any:
        """In float32: x / ratio, plus the share of the free width that lies to the left."""
        small = np.float32(1) / ratio
        margin = np.float32(1) - small
        x, y = (context.xp.clip(place, np.float32(0), np.float32(1)) for place in (paste_x, paste_y))
        left, top, small = (term.reshape(-1, 1) for term in (margin * x, margin * y, small))
        x, y, *rest = corners(boxes)
        ends = [rest[0] * small + left, rest[1] * small + top] if self.ltrb else [each * small for each in rest]
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
    """Move boxes as `paste` moves their image, which it puts on a larger canvas.

    Args:
        data: boxes relative to the image, float32 (n, 4): left, top, width and height.
        ratio: the size of the canvas to that of the image, at least 1; a number, or a node with one per sample.
        paste_x: where the image lies, from 0, at the left, to 1, at the right; what lies beyond counts as these.
        paste_y: from 0, at the top, to 1, at the bottom; likewise.
        ltrb: whether a box is left, top, right and bottom.

    Returns:
        The boxes relative to the canvas, in the same form.

    Raises:
        ArgumentTypeError: another dtype than float32.
        DefinitionError: a sample's last extent is not 4, or a ratio is less than 1.

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
    made = BoxPaste(bool(ltrb))
    return apply(made, data, ratio=ratio, paste_x=paste_x, paste_y=paste_y)
