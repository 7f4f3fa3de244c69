"""`fn.contrast`."""

from __future__ import annotations

from typing import Any

from penstock.graph import DataNode, operator
from penstock.operators.color.brightness_operator import change_levels
from penstock.types import DALIDataType


@operator("contrast")
def contrast(
    data: DataNode,
    *,
    contrast: float | DataNode = 1.0,
    contrast_center: float | DataNode | None = None,
    dtype: DALIDataType | Any = None,
) -> DataNode:
    """Change the contrast of images.

    The result is ``center + contrast * (value - center)``.

    Args:
        data: Images, volumes or sequences, any dtype and layout (HWC if the input has none).
        contrast: Factor for the distance from the center; a number, or a node with one per sample.
        contrast_center: Value that contrast does not change, in units of the input; by default the middle of the
            input's range (128 for uint8, 0.5 for floats); a number, or a node with one per sample.
        dtype: Dtype of the result; the input's dtype by default.

    Returns:
        Images with the shape and layout of the input. Integer results are rounded and clipped.

    Raises:
        ArgumentTypeError: If an argument is not a number.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[200, 100, 50]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.contrast(images, contrast=0.5))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [164, 114, 89]
    """
    return change_levels(data, dtype, contrast=contrast, contrast_center=contrast_center)
