"""`fn.color_twist`."""

from __future__ import annotations

from typing import Any

from penstock.graph import DataNode, operator
from penstock.operators.color.color_matrix import twist
from penstock.types import RGB, DALIDataType, DALIImageType


@operator("color_twist")
def color_twist(
    data: DataNode,
    *,
    hue: float | DataNode = 0.0,
    saturation: float | DataNode = 1.0,
    brightness: float | DataNode = 1.0,
    contrast: float | DataNode = 1.0,
    image_type: DALIImageType | int = RGB,
    dtype: DALIDataType | Any = None,
) -> DataNode:
    """Change the hue, saturation, brightness and contrast of images.

    The change is linear, as in DALI: RGB is converted to YIQ (luma and two chroma components), the chroma is rotated
    and scaled, and the result is converted back. This is not the HSV of drawing programs. Brightness and
    contrast follow: ``brightness * (middle + contrast * (value - middle))``, where middle is 128 for integers and 0.5
    for floats.

    Args:
        data: RGB images, volumes or sequences, any dtype; layout with H, W and C (HWC if the input has none).
        hue: Rotation of the chroma in degrees; a number, or a node with one per sample.
        saturation: Factor for the chroma, 0 for gray; a number, or a node with one per sample.
        brightness: Factor for all values; a number, or a node with one per sample.
        contrast: Factor for the distance from the middle of the range; a number, or a node with one per sample.
        image_type: Color space of the images; only RGB is supported.
        dtype: Dtype of the result; the input's dtype by default.

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
        ...     pipeline.set_outputs(fn.color_twist(images, brightness=0.5, contrast=2.0))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [136, 36, 0]
    """
    return twist(
        data,
        "color_twist",
        dtype,
        image_type,
        hue=hue,
        saturation=saturation,
        brightness=brightness,
        contrast=contrast,
    )
