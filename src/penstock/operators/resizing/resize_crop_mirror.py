"""Operator that resizes, crops and mirrors images in one pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Unpack, cast

import numpy as np

from penstock.core import Spec
from penstock.graph import Argument, DataNode, DType, apply, assumed_layout, operator
from penstock.image.describe.axis_mapping import where
from penstock.image.describe.crop_window import POSITION_ARGUMENTS, SIZE_ARGUMENTS
from penstock.image.describe.steps import CropStep, ImageInfo, MirrorStep, ResampleAxis, ResampleStep, Step
from penstock.numerics.casting import output_dtype
from penstock.operators.cropping.crop import Crop
from penstock.operators.cropping.crop_arguments import CropPositionArguments, make_window
from penstock.operators.cropping.flip import FLAGS, Flip
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.resizing.filter_arguments import FilterArguments
from penstock.operators.resizing.resize import Resampled, Resampling, Resize
from penstock.operators.resizing.target_size import SizeArguments, sizing


class ResizeCropMirrorArguments(SizeArguments, FilterArguments, CropPositionArguments, total=False):
    """Arguments of the size, the filters and the window."""


@dataclass(frozen=True)
class ResizeCropMirror(Resampling):
    """Resampling of the ROI that the window shows, reversed along mirrored axes.

    Results equal those of the three operators except for rounding: INTERP_NN at a coordinate between two pixels, and
    the end of the support of INTERP_GAUSSIAN. DALI also resamples the ROI.

    Args:
        resize: Resize of the whole image.
        crop: Crop of the resized image.
        flip: Flip of the window.
    """

    resize: Resize
    crop: Crop
    flip: Flip
    schema: ClassVar[Mapping[str, Argument]] = {
        **Resize.schema,
        **{name: Argument(np.int32) for name in FLAGS.values()},
    }

    def infer(self, images: Spec, **arguments: Any) -> Spec:
        """Return the spec of the window."""
        size, place, _ = _parts(arguments)
        return self.flip.infer(self.crop.infer(self.resize.infer(images, **size), **place))

    def describe(self, images: ImageInfo, bits: Any, **arguments: Any) -> Sequence[Step]:
        """Return the steps: resample the ROI of the window, cast."""
        size, place, flags = _parts(arguments)
        resample, *rest = self.resize.describe(images, bits, **size)
        parts = dict(cast(ResampleStep, resample).parts)
        sizes = [parts[at].size if at in parts else size for at, size in enumerate(images.sizes)]
        resized = replace(images, sizes=sizes, dtype=self.dtype)
        # Translate the crop and the flip into the ROI and direction of the resampling: pixels outside the window are
        # never computed.
        for step in [*self.crop.describe(resized, bits, **place), *self.flip.describe(resized, bits, **flags)]:
            if isinstance(step, CropStep):
                parts[step.axis] = _cropped(parts[step.axis], step.first, step.length)
            elif isinstance(step, MirrorStep):
                parts[step.axis] = _mirrored(parts[step.axis], step.flags)
        return [replace(cast(ResampleStep, resample), parts=parts), *rest]


def _parts(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the arguments of the resize, the crop and the flip."""
    place = {*SIZE_ARGUMENTS.values(), *POSITION_ARGUMENTS.values()}
    names = arguments.keys() - place - {*FLAGS.values()}, place, FLAGS.values()
    return [{name: value for name, value in arguments.items() if name in part} for part in names]


def _cropped(part: ResampleAxis, first: Any, length: Any) -> ResampleAxis:
    """Restrict a resampled axis to `length` pixels of the result from index `first`."""
    scale = (part.high - part.low) / part.size
    # At the last pixel take the end of the ROI itself, which the product may miss by a rounding error.
    high = where(first + length == part.size, part.high, part.low + (first + length) * scale)
    return ResampleAxis(part.low + first * scale, high, length, part.filters)


def _mirrored(part: ResampleAxis, flags: Any) -> ResampleAxis:
    """Reverse a resampled axis in the rows whose flag is set."""
    return ResampleAxis(where(flags, part.high, part.low), where(flags, part.low, part.high), part.size, part.filters)


@operator("resize_crop_mirror")
@rounds_to_bfloat16
def resize_crop_mirror(
    data: Resampled,
    *,
    mirror: int | DataNode = 0,
    dtype: DType = None,
    **arguments: Unpack[ResizeCropMirrorArguments],
) -> DataNode:
    """Resize images, crop a window, and mirror it, in one pass.

    Same as `resize`, `crop` and `flip`, but only the pixels of the window are computed. A window larger than the
    resized image is an error; DALI resamples pixels outside the image. Frames of a sequence are mirrored like images;
    DALI 2.4 turns them upside down.

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
        ...     images = fn.readers.arrays(np.zeros((1, 60, 80, 3), np.uint8), layout="HWC")
        ...     images = fn.resize_crop_mirror(images, resize_shorter=32, crop=(28, 28), mirror=1)
        ...     pipeline.set_outputs(images)
        >>> pipeline.run()[0].as_array().shape
        (1, 28, 28, 3)
    """
    layout, result = assumed_layout(data.spec), output_dtype(data.spec.dtype, dtype)
    sizes, varying = sizing(arguments, layout)
    window, place = make_window(arguments, layout)
    # DALI's mirror is a bit mask. A volume's bit has no effect on images, which have no depth.
    flags: dict[str, Any] = {
        "horizontal": mirror & 1,
        "vertical": mirror & 2,
        "depthwise": mirror & 4 if "D" in layout else 0,
    }
    kernel = ResizeCropMirror(layout, result, Resize(layout, result, sizes), Crop(window, result), Flip(layout))
    return apply(kernel, data, **varying, **place, **flags)
