"""dilate: the greatest value around each pixel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from penstock.graph.arguments.argument_marks import Range
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
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
    """Replace each pixel by the greatest value of a rectangle around it: what is brighter than its surroundings grows.

    Args:
        data: images or sequences; any dtype that float32 holds; layout with H and W (HWC where none is named).
            Channels are independent.
        mask_size: width and height of the rectangle, or one number for both; a node has either per sample. -1 is 3.
        anchor: the column and the row of the rectangle that lie on the pixel, counted from 0, or one number for both;
            likewise. -1 is the middle.
        iterations: how often it is done, 1 to 10,000.
        border_mode: what is beyond the edge: "constant" (nothing that counts), "replicate" (the outermost pixels),
            "reflect" (the image mirrored), "reflect_101" (without its outermost pixels) or "wrap".

    Returns:
        Same shape, dtype and layout.

    Raises:
        DefinitionError: an empty mask, an anchor outside of it, an unknown border, a volume, a dtype that is not
            offered.

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
