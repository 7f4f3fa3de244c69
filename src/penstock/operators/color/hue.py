"""`fn.hue`."""

from __future__ import annotations

from typing import Any

from penstock.graph import DataNode, operator
from penstock.operators.color.color_matrix import twist
from penstock.types import RGB, DALIDataType, DALIImageType


@operator("hue")
def hue(
    data: DataNode,
    *,
    hue: float | DataNode = 0.0,
    image_type: DALIImageType | int = RGB,
    dtype: DALIDataType | Any = None,
) -> DataNode:
    """Change the hue of images.

    The change is linear, as in DALI: RGB is converted to YIQ (luma and two chroma components), the chroma is rotated
    and scaled, and the result is converted back. This is not the HSV of drawing programs.

    Args:
        data: RGB images, volumes or sequences, any dtype; layout with H, W and C (HWC if the input has none).
        hue: Rotation of the chroma in degrees; a number, or a node with one per sample.
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
        ...     pipeline.set_outputs(fn.hue(images, hue=120))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [50, 177, 45]
    """
    return twist(data, "hue", dtype, image_type, hue=hue)
