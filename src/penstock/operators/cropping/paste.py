"""paste: put images on a larger canvas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.layouts import image_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.codecs.image_header import MAX_PIXELS
from penstock.image.describe.steps import CropStep, FillStep, ImageInfo, Step
from penstock.image.image_operator import ImageOperator


@dataclass(frozen=True)
class Paste(ImageOperator):
    """An image on a canvas of one value.

    Args:
        layout: of the images.
        fill: the value, one or one per channel.
    """

    layout: str
    fill: tuple[int, ...]
    schema: ClassVar[Mapping[str, Argument]] = {
        "ratio": Argument(np.float32, low=1),
        "paste_x": Argument(np.float32, low=0, high=1),
        "paste_y": Argument(np.float32, low=0, high=1),
        "min_canvas_size": Argument(np.float32, low=0),
    }

    def infer(self, images: Spec, **_arguments: Any) -> Spec:
        """The input's, of another size."""
        extents = tuple(None if axis in "HW" else n for axis, n in zip(self.layout, images.shape, strict=True))
        return Spec(images.dtype, extents, images.layout or self.layout)

    def describe(
        self, images: ImageInfo, bits: Any, *, ratio: Any, paste_x: Any, paste_y: Any, min_canvas_size: Any
    ) -> Sequence[Step]:
        """A window that leaves the image on all sides. Sizes and places are cut off to whole pixels."""
        if images.xp is np:
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
            canvas = images.xp.maximum((ratio * size.astype(np.float32)).astype(np.int32), size)
            canvas = images.xp.maximum(canvas, min_canvas_size.astype(np.int32))
            before = (place * (canvas - size).astype(np.float32)).astype(np.int32)
            steps.append(CropStep(axis, -before, canvas, may_exceed=True))
        return [*steps, FillStep(np.array([self.fill], images.dtype))]


@operator("paste")
def paste(
    data: DataNode,
    *,
    ratio: float | DataNode,
    fill_value: float | Sequence[float],
    n_channels: int = 3,
    paste_x: float | DataNode = 0.5,
    paste_y: float | DataNode = 0.5,
    min_canvas_size: float | DataNode = 0.0,
) -> DataNode:
    """Put images on a larger canvas of one colour. `fn.bbox_paste` moves their boxes.

    Args:
        data: images of any dtype, layout with H and W (HWC where none is named).
        ratio: the size of the canvas to that of the image, at least 1; a number, or a node with one per sample.
        fill_value: of the canvas, one number or one per channel; fractions are dropped, as in DALI.
        n_channels: how many channels images have; accepted, and checked where the layout tells.
        paste_x: where the image lies, from 0, at the left, to 1, at the right; a number, or a node.
        paste_y: from 0, at the top, to 1, at the bottom; likewise.
        min_canvas_size: the least height and width of the canvas, in pixels; likewise.

    Returns:
        Images of the canvas's size, same dtype and layout.

    Raises:
        DefinitionError: a ratio below 1, a place outside of 0 to 1, values that are not one per channel.

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
    layout = image_layout(data, "paste")
    fill = tuple(map(int, np.atleast_1d(np.asarray(fill_value)).tolist()))
    channels = data.spec.shape[layout.index("C")] if "C" in layout else 1
    if len(fill) != 1 and len(fill) != (n_channels if channels is None else channels):
        raise DefinitionError(
            "fn.paste: fill_value is one number per channel", given=fill_value, expected=channels or n_channels
        )
    if data.spec.dtype.kind in "iu":
        limits = np.iinfo(data.spec.dtype)
        fill = tuple(min(max(value, int(limits.min)), int(limits.max)) for value in fill)
    given: dict[str, Any] = {"ratio": ratio, "paste_x": paste_x, "paste_y": paste_y, "min_canvas_size": min_canvas_size}
    return apply(Paste(layout, fill), data, **given)
