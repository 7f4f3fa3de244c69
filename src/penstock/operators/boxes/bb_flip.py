"""Operator that mirrors boxes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.graph import Argument, DataNode, apply, operator
from penstock.operators.boxes.box_operator import AnyBoxes, BoxOperator


@dataclass(frozen=True)
class BoxFlip(BoxOperator):
    """Mirroring of boxes about the center of the image."""

    def move(self, xp: Any, left: Any, top: Any, *ends: Any, horizontal: Any, vertical: Any) -> Sequence[Any]:
        """Mirror each axis whose flag is set."""
        one = np.float32(1)
        result: list[Any] = []
        # Boxes are relative to the image. Mirrored, the far edge becomes the near one: 1 - right, or 1 - (x + width).
        for flag, low, high in zip((horizontal, vertical), (left, top), ends, strict=True):
            mirrored = (one - high, one - low) if self.ltrb else (one - low - high, high)
            pairs = zip(mirrored, (low, high), strict=True)
            result += [xp.where(flag.reshape(-1, 1) != 0, new, old) for new, old in pairs]
        left, right, top, bottom = result
        return left, top, right, bottom


@operator("bb_flip")
def bb_flip(
    data: AnyBoxes,
    *,
    horizontal: Annotated[int | DataNode, Argument(np.int32)] = 1,
    vertical: Annotated[int | DataNode, Argument(np.int32)] = 0,
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
        DefinitionError: The dtype is not float32, or the last extent of a sample is not 4.

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
