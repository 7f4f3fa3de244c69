"""resize_crop_mirror: resize, cut out and mirror images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Unpack, cast

from penstock.core.spec import Spec
from penstock.graph.arguments.argument_groups import select_arguments
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.layouts import image_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.axis_mapping import where
from penstock.image.describe.steps import CropStep, ImageInfo, MirrorStep, ResampleAxis, ResampleStep, Step
from penstock.operators.cropping.crop import Crop
from penstock.operators.cropping.crop_arguments import CropPositionArguments, make_window
from penstock.operators.cropping.flip import Flip
from penstock.operators.resizing.filter_arguments import FilterArguments
from penstock.operators.resizing.resize import Resampling, Resize, resampled_dtype
from penstock.operators.resizing.target_size import SizeArguments, sizing
from penstock.types import DALIDataType


class ResizeCropMirrorArguments(SizeArguments, FilterArguments, CropPositionArguments, total=False):
    """Size, filters and window."""


@dataclass(frozen=True)
class ResizeCropMirror(Resampling):
    """Resampling of that part of an image which the window shows, backwards where it is mirrored.

    The numbers are those of the three operators, but for rounding: of a place on the edge between two pixels, and of
    where the bell ends. There DALI has those of the part.
    """

    resize: Resize
    crop: Crop
    flip: Flip
    schema: ClassVar[Mapping[str, Argument]] = {**Resize.schema, **Crop.schema, **Flip.schema}

    def infer(self, images: Spec, **arguments: Any) -> Spec:
        """The window's shape."""
        resized = self.resize.infer(images, **_of(Resize, arguments))
        return self.flip.infer(self.crop.infer(resized, **_of(Crop, arguments)))

    def describe(self, images: ImageInfo, bits: Any, **arguments: Any) -> Sequence[Step]:
        """The part of each axis from which the window is made."""
        resample, *rest = self.resize.describe(images, bits, **_of(Resize, arguments))
        parts = dict(cast(ResampleStep, resample).parts)
        sizes = [parts[at].size if at in parts else size for at, size in enumerate(images.sizes)]
        resized = replace(images, sizes=sizes, dtype=self.dtype)
        steps = [*self.crop.describe(resized, bits, **_of(Crop, arguments))]
        for step in [*steps, *self.flip.describe(resized, bits, **_of(Flip, arguments))]:
            if isinstance(step, CropStep):
                parts[step.axis] = _shown(parts[step.axis], step.first, step.length)
            elif isinstance(step, MirrorStep):
                parts[step.axis] = _turned(parts[step.axis], step.flags)
        return [replace(cast(ResampleStep, resample), parts=parts), *rest]


def _of(kind: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name in kind.schema}


def _shown(part: ResampleAxis, first: Any, length: Any) -> ResampleAxis:
    """`length` of the pixels that an axis is resampled to, from number `first` on."""
    scale = (part.high - part.low) / part.size
    high = where(first + length == part.size, part.high, part.low + (first + length) * scale)
    return ResampleAxis(part.low + first * scale, high, length, part.filters)


def _turned(part: ResampleAxis, flags: Any) -> ResampleAxis:
    """Backwards, where a flag is set."""
    return ResampleAxis(where(flags, part.high, part.low), where(flags, part.low, part.high), part.size, part.filters)


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
        ...     images = fn.readers.arrays(np.zeros((1, 60, 80, 3), np.uint8), layout="HWC")
        ...     images = fn.resize_crop_mirror(images, resize_shorter=32, crop=(28, 28), mirror=1)
        ...     pipeline.set_outputs(images)
        >>> pipeline.run()[0].as_array().shape
        (1, 28, 28, 3)
    """
    kind = "resize_crop_mirror"
    layout = image_layout(data, kind)
    sizes, varying = sizing(
        select_arguments(SizeArguments, arguments), select_arguments(FilterArguments, arguments), layout, kind
    )
    cut, place = make_window(select_arguments(CropPositionArguments, arguments), layout, kind)
    result = resampled_dtype(data, dtype, kind)
    flags: dict[str, Any] = {"horizontal": mirror & 1, "vertical": mirror & 2, "depthwise": 0}
    if "D" in layout:
        flags["depthwise"] = mirror & 4
    made = ResizeCropMirror(layout, result, Resize(layout, result, sizes), Crop(cut, result), Flip(layout))
    return apply(made, data, **varying, **place, **flags)
