"""Operator `resize_crop_mirror` without antialiasing by default."""

from typing import Unpack

from penstock.graph import DataNode, DType, operator
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.resizing.resize import Resampled
from penstock.operators.resizing.resize_crop_mirror import ResizeCropMirrorArguments, resize_crop_mirror


@operator("fast_resize_crop_mirror", defaults={"antialias": False})
@rounds_to_bfloat16
def fast_resize_crop_mirror(
    data: Resampled,
    *,
    mirror: int | DataNode = 0,
    dtype: DType = None,
    **arguments: Unpack[ResizeCropMirrorArguments],
) -> DataNode:
    """Resize images, crop a window, and mirror it, by default without antialiasing.

    Same as `resize_crop_mirror`, except that ``antialias`` is False by default.

    Args:
        data: Images, volumes or sequences, uint8, int16, uint16 or float32; the layout needs H and W and defaults to
            HWC.
        mirror: 0, or the sum of 1 (exchange left and right), 2 (top and bottom) and 4 (front and back, for volumes); a
            number, or a node with one per sample.
        dtype: Dtype of the result, FLOAT or that of the input; by default that of the input.
        **arguments: See `ResizeCropMirrorArguments`.

    Returns:
        Windows in the layout of the input.

    Raises:
        DefinitionError: The size is given twice or not at all, or the dtype cannot be resampled.
        SampleError: At run time, a resized image is smaller than the window.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.arange(8, dtype=np.uint8).reshape(1, 1, 8, 1), layout="HWC")
        ...     pipeline.set_outputs(fn.fast_resize_crop_mirror(images, size=(1, 2), crop=(1, 2), mirror=1))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [6, 2]
    """
    return resize_crop_mirror.forward(data, mirror=mirror, dtype=dtype, **{"antialias": False, **arguments})
