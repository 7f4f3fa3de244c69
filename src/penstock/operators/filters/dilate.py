"""Operator that dilates images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from penstock.graph import DataNode, Range, operator
from penstock.operators.filters.morphology_operator import MorphologyBorder, morphology


@operator("dilate")
def dilate(
    data: DataNode,
    *,
    mask_size: int | Sequence[int] | DataNode = (3, 3),
    anchor: int | Sequence[int] | DataNode = (-1, -1),
    iterations: Annotated[int, Range(1, 10_000)] = 1,
    border_mode: MorphologyBorder = "constant",
) -> DataNode:
    """Dilate images: replace each pixel by the maximum of a rectangle around it.

    Args:
        data: Images or sequences of a dtype whose values float32 represents exactly; the layout needs H and W and
            defaults to HWC. Channels are independent.
        mask_size: Width and height of the rectangle in pixels, or one number for both, or a node with either per
            sample. -1 means 3.
        anchor: Column and row of the rectangle, from 0, that coincide with the pixel, or one number for both, or a
            node with either per sample. -1 means the center.
        iterations: Number of dilations, 1 to 10,000.
        border_mode: Pixels outside the image: "constant" (ignored), "replicate" (the edge pixels), "reflect" (the
            mirrored image), "reflect_101" (the mirrored image without its edge pixels) or "wrap" (the repeated image).

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        DefinitionError: The mask is empty, the anchor is outside the mask, the border is unknown, the input is a
            volume, or its dtype is not supported.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[0], [0], [9], [0], [0]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.dilate(images))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [0, 9, 9, 9, 0]
    """
    return morphology(
        data,
        greatest=True,
        mask_size=mask_size,
        anchor=anchor,
        iterations=iterations,
        border_mode=border_mode,
    )
