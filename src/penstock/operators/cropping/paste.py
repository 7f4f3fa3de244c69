"""Operator that pastes images on a larger canvas."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.core import Spec
from penstock.graph import Argument, DataNode, Images, apply, assumed_layout, operator
from penstock.image.codecs.image_header import MAX_PIXELS
from penstock.image.describe.steps import CropStep, FillStep, ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.operators.number_arguments import as_floats, check_number_count, check_per_channel


@dataclass(frozen=True)
class Paste(ImageOperator):
    """Paste on a canvas of one color.

    Args:
        layout: Layout of the images.
        fill: Value of the canvas, one number or one per channel.
    """

    layout: str
    fill: tuple[int, ...]

    def infer(self, images: Spec, **_arguments: Any) -> Spec:
        """Return the spec of the input with an unknown height and width."""
        check_per_channel("fill_value", self.fill, images, self.layout)
        extents = tuple(None if axis in "HW" else n for axis, n in zip(self.layout, images.shape, strict=True))
        return Spec(images.dtype, extents, images.layout or self.layout)

    def describe(
        self, images: ImageInfo, bits: Any, *, ratio: Any, paste_x: Any, paste_y: Any, min_canvas_size: Any
    ) -> Sequence[Step]:
        """Return crop steps that exceed the image on all sides, and a fill step."""
        if images.xp is np:
            # The limit of the decoders, checked before memory is allocated.
            height, width = (
                np.maximum(ratio * images.sizes[self.layout.index(letter)].astype(np.float64), min_canvas_size)
                for letter in "HW"
            )
            if (height * width > MAX_PIXELS).any():
                raise ValueError(f"the canvas has more than {MAX_PIXELS} pixels")
        steps: list[Step] = []
        for letter, place in (("H", paste_y), ("W", paste_x)):
            axis = self.layout.index(letter)
            size = images.sizes[axis].astype(np.int32)
            # As in DALI, sizes and positions are computed in float32 and truncated to whole pixels.
            canvas = images.xp.maximum((ratio * size.astype(np.float32)).astype(np.int32), size)
            canvas = images.xp.maximum(canvas, min_canvas_size.astype(np.int32))
            before = (place * (canvas - size).astype(np.float32)).astype(np.int32)
            steps.append(CropStep(axis, -before, canvas, may_exceed=True))
        return [*steps, FillStep(np.array([self.fill], images.dtype))]


@operator("paste")
def paste(
    data: Images,
    *,
    ratio: Annotated[float | DataNode, Argument(np.float32, low=1)],
    fill_value: float | Sequence[float],
    n_channels: int = 3,
    paste_x: Annotated[float | DataNode, Argument(np.float32, low=0, high=1)] = 0.5,
    paste_y: Annotated[float | DataNode, Argument(np.float32, low=0, high=1)] = 0.5,
    min_canvas_size: Annotated[float | DataNode, Argument(np.float32, low=0)] = 0.0,
) -> DataNode:
    """Paste images on a larger canvas of one color.

    `fn.bbox_paste` moves the boxes of the images. Except for `fill_value` and `n_channels`, each argument is a number,
    or a node with one per sample.

    Args:
        data: Images of any dtype; the layout needs H and W and defaults to HWC.
        ratio: Size of the canvas relative to the image, at least 1.
        fill_value: Value of the canvas, one number or one per channel; fractions are truncated, as in DALI.
        n_channels: Number of channels, used to check `fill_value` if the spec of the images does not tell.
        paste_x: Position of the image: 0 at the left edge, 1 at the right edge.
        paste_y: Position of the image: 0 at the top edge, 1 at the bottom edge.
        min_canvas_size: Minimum height and width of the canvas in pixels.

    Returns:
        Images of the size of the canvas, in the dtype and layout of the input.

    Raises:
        DefinitionError: `ratio` is below 1, a position is outside 0 to 1, or `fill_value` does not have one number per
            channel.
        SampleError: At run time, a canvas is too large, or an image has another number of channels than `fill_value`.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.ones((1, 1, 2, 3), np.uint8), layout="HWC")
        ...     pipeline.set_outputs(fn.paste(images, ratio=2, fill_value=[9, 9, 9], paste_x=0))
        >>> pipeline.run()[0].as_array()[0, :, :, 0].tolist()
        [[1, 1, 9, 9], [9, 9, 9, 9]]
    """
    layout = assumed_layout(data.spec)
    channels = data.spec.shape[layout.index("C")] if "C" in layout else 1
    if channels is None:
        check_number_count("fill_value", fill_value, n_channels, "channel")
    fill = tuple(map(int, as_floats(fill_value)))
    if data.spec.dtype.kind in "iu":
        limits = np.iinfo(data.spec.dtype)
        fill = tuple(min(max(value, int(limits.min)), int(limits.max)) for value in fill)
    kernel = Paste(layout, fill)
    return apply(kernel, data, ratio=ratio, paste_x=paste_x, paste_y=paste_y, min_canvas_size=min_canvas_size)
