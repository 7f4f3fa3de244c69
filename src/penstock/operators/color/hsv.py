"""hsv: change hue, saturation and value."""

from __future__ import annotations

from typing import Any

from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
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

    The change is linear, as DALI's is: RGB is turned into luminance and two numbers of colour (YIQ), these two are
    turned and scaled, and turned back. It is not the HSV of drawing programs.

    Args:
        data: images, volumes or sequences of any dtype; layout with H, W and C (HWC where none is named).
        hue: the angle in degrees by which colours turn about the grey axis; a number, or a node with one per sample.
        saturation: the factor of what lies off the grey axis, 0 for grey; a number, or a node with one per sample.
        value: the factor of all values; a number, or a node with one per sample.
        dtype: of the result; uint8 by default, whatever the input's.

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
        ...     pipeline.set_outputs(fn.hsv(images, saturation=0.5))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [162, 112, 87]
    """
    return twist(data, "hsv", dtype, hue=hue, saturation=saturation, value=value)
