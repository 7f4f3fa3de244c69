"""resize_crop_mirror: resize, cut out and mirror images."""

from __future__ import annotations

from typing import Any, Unpack

from penstock.graph.operator import Common, pick
from penstock.graph.registry import operator
from penstock.graph.trace import DataNode, apply
from penstock.operators.axes import image_layout
from penstock.operators.geometry.crop import Crop
from penstock.operators.geometry.filters import FilterArguments
from penstock.operators.geometry.flip import Flip
from penstock.operators.geometry.resize import Resize, resampled_dtype
from penstock.operators.geometry.size_arguments import SizeArguments, sizing
from penstock.operators.image.window import PlaceArguments, window
from penstock.types import DALIDataType


class ResizeCropMirrorArguments(SizeArguments, FilterArguments, PlaceArguments, Common, total=False):
    """Size, filters, window, and what every operator takes."""


@operator("resize_crop_mirror")
def resize_crop_mirror(
    data: DataNode,
    *,
    mirror: int | DataNode = 0,
    dtype: DALIDataType | Any = None,
    **arguments: Unpack[ResizeCropMirrorArguments],
) -> DataNode:
    """Resize images, cut out a window, and mirror it: `resize`, `crop` and `flip`, which run as one.

    Only the pixels of the window are computed. A window larger than the resized image is an error; DALI resamples what
    lies beyond the image's edge. Frames of a sequence are mirrored like images; DALI 2.4 turns them upside down.

    Args:
        data: images, volumes or sequences, uint8, int16, uint16 or float32; layout with H and W (HWC where none is
            named).
        mirror: 0, or the sum of 1 (exchange left and right), 2 (top and bottom) and 4 (front and back, for volumes); a
            node gives each sample its own.
        dtype: of the result: FLOAT or the input's, which it is by default.
        **arguments: size and filters as for `resize`, the window as for `crop`; and what every operator takes.

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
        ...     images = fn.readers.arrays(np.zeros((1, 60, 80, 3), np.uint8), layout="HWC")
        ...     images = fn.resize_crop_mirror(images, resize_shorter=32, crop=(28, 28), mirror=1)
        ...     pipeline.set_outputs(images)
        >>> pipeline.run()[0].as_array().shape
        (1, 28, 28, 3)
    """
    kind = "resize_crop_mirror"
    layout = image_layout(data, kind)
    sizes, varying = sizing(pick(SizeArguments, arguments), pick(FilterArguments, arguments), layout, kind)
    cut, place = window(pick(PlaceArguments, arguments), layout, kind)
    images = apply(Resize(layout, resampled_dtype(data, dtype, kind), sizes), data, **varying)
    windows = apply(Crop(cut, images.spec.dtype), images, **place)
    flags: dict[str, Any] = {"horizontal": mirror & 1, "vertical": mirror & 2, "depthwise": 0}
    if "D" in layout:
        flags["depthwise"] = mirror & 4
    return apply(Flip(layout), windows, common=pick(Common, arguments), **flags)
