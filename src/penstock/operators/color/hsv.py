"""`fn.hsv`."""

from __future__ import annotations

from typing import Any

from penstock.graph import DataNode, operator
from penstock.operators.color.color_matrix import twist
from penstock.types import UINT8, DALIDataType


@operator("hsv")
def hsv(
    data: DataNode,
    *,
    hue: float | DataNode = 0.0,
    saturation: float | DataNode = 1.0,
    value: float | DataNode = 1.0,
    dtype: DALIDataType | Any = UINT8,
) -> DataNode:
    """Change the hue, saturation and value of images.

    The change is linear, as in DALI: RGB is converted to YIQ (luma and two chroma components), the chroma is rotated
    and scaled, and the result is converted back. This is not the HSV of drawing programs.

    Args:
        data: RGB images, volumes or sequences, any dtype; layout with H, W and C (HWC if the input has none).
        hue: Rotation of the chroma in degrees; a number, or a node with one per sample.
        saturation: Factor for the chroma, 0 for gray; a number, or a node with one per sample.
        value: Factor for all values; a number, or a node with one per sample.
        dtype: Dtype of the result; uint8 by default for all inputs, as in DALI.

    Returns:
        Images with the shape and layout of the input. Integer results are rounded and clipped.

    Raises:
        DefinitionError: If the images do not have three channels, or `image_type` is not RGB.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[200, 100, 50]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.hsv(images, saturation=0.5))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [162, 112, 87]
    """
    return twist(data, "hsv", dtype, hue=hue, saturation=saturation, value=value)
