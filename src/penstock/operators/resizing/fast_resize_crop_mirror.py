"""fast_resize_crop_mirror: `resize_crop_mirror` that does not stretch its filters."""

from __future__ import annotations

from typing import Any, Unpack

from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.resizing.resize_crop_mirror import ResizeCropMirrorArguments, resize_crop_mirror
from penstock.types import DALIDataType


@operator("fast_resize_crop_mirror", defaults={"antialias": False})
def fast_resize_crop_mirror(
    data: DataNode,
    *,
    mirror: int | DataNode = 0,
    dtype: DALIDataType | Any = None,
    **arguments: Unpack[ResizeCropMirrorArguments],
) -> DataNode:
    """Resize images, cut out a window, and mirror it, by default without stretching filters where images shrink.

    Args:
        data: as `resize_crop_mirror` takes it, whose ``antialias`` is True by default.
        mirror: likewise.
        dtype: of the result: FLOAT or the input's, which it is by default.
        **arguments: See `ResizeCropMirrorArguments`.

    Returns:
        The windows, in the input's layout.

    Raises:
        DefinitionError: a size given twice or not at all, a dtype that cannot be resampled.
        SampleError: while running, an image smaller than the window after it was resized.

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
    given: ResizeCropMirrorArguments = {"antialias": False, **arguments}
    return resize_crop_mirror.forward(data, mirror=mirror, dtype=dtype, **given)
