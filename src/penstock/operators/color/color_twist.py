"""color_twist: change hue, saturation, brightness and contrast."""

from __future__ import annotations

from typing import Any

from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
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

    The change is linear, as DALI's is: RGB is turned into luminance and two numbers of colour (YIQ), these two are
    turned and scaled, and turned back. It is not the HSV of drawing programs. Brightness and contrast follow:
    ``brightness * (middle + contrast * (value - middle))``, where middle is 128 for integers and 0.5 for floats.

    Args:
        data: images, volumes or sequences of any dtype; layout with H, W and C (HWC where none is named).
        hue: the angle in degrees by which colours turn about the grey axis; a number, or a node with one per sample.
        saturation: the factor of what lies off the grey axis, 0 for grey; a number, or a node with one per sample.
        brightness: the factor of all values; a number, or a node with one per sample.
        contrast: the factor of the distance from the middle of the range; a number, or a node with one per
            sample.
        image_type: RGB; images of one channel have no colours to change.
        dtype: of the result; the input's by default.

    Returns:
        The changed values, rounded and clipped where they are integers; shape and layout of the input.

    Raises:
        DefinitionError: images without three channels, or another image type.

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
