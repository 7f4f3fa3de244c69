"""brightness: change the brightness."""

from __future__ import annotations

from typing import Any

from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.color.brightness_operator import change_levels
from penstock.types import DALIDataType


@operator("brightness")
def brightness(
    data: DataNode,
    *,
    brightness: float | DataNode = 1.0,
    brightness_shift: float | DataNode = 0.0,
    dtype: DALIDataType | Any = None,
) -> DataNode:
    """Change the brightness of images.

    A value becomes ``brightness_shift * range + brightness * value``; the range of integers is their greatest value,
    that of floats is 1.

    Args:
        data: images, volumes or sequences of any dtype; layout of any kind (HWC where none is named).
        brightness: the factor of all values; a number, or a node with one per sample.
        brightness_shift: what is added, as a part of the result's range; a number, or a node with one per sample.
        dtype: of the result; the input's by default.

    Returns:
        The changed values, rounded and clipped where they are integers; shape and layout of the input.

    Raises:
        ArgumentTypeError: arguments that are no numbers.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[200, 100, 50]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.brightness(images, brightness=1.5))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [255, 150, 75]
    """
    return change_levels(data, dtype, brightness=brightness, brightness_shift=brightness_shift)
