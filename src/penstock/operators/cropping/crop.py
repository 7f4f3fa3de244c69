"""Operator that crops images."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Unpack

import numpy as np

from penstock.core import Spec
from penstock.graph import DataNode, Default, DType, FramedCall, Images, Operator, apply, assumed_layout, operator
from penstock.image.describe.crop_window import CropWindow
from penstock.image.describe.pixel_pass import fits_float32
from penstock.image.describe.steps import CastStep, ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.numerics.casting import result_dtype
from penstock.operators.cropping.border_window import BORDERS, BorderWindow, WindowPolicy, convert
from penstock.operators.cropping.crop_arguments import CropPositionArguments, make_window
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.number_arguments import check_per_channel
from penstock.types import DALIImageType, is_float


class CropArguments(CropPositionArguments, total=False):
    """Size and position of a window that may exceed the image.

    Args:
        out_of_bounds_policy: Policy for windows that exceed the image: "error", "pad" with `fill_values`,
            "trim_to_shape", or a border mode that continues the image: "clamp" (or "edge") repeats its last pixel,
            "reflect" (or "reflect_1001") mirrors it, "reflect_101" mirrors it without the last pixel, and "wrap"
            repeats it.
        fill_values: Padding value, one or one per channel, in the dtype of the result; integers drop fractions.
    """

    out_of_bounds_policy: Annotated[WindowPolicy, Default("error")]
    fill_values: Annotated[float | Sequence[float], Default(0.0)]


@dataclass(frozen=True)
class WindowOperator(ImageOperator):
    """Base of operators that crop a window.

    Args:
        window: Axes, rounding and out-of-bounds policy of the window.
        dtype: Dtype of the result.
    """

    window: CropWindow
    dtype: np.dtype[Any]

    @property
    def assumed_layout(self) -> str:
        """Layout of the window."""
        return self.window.layout

    def per_frame(self, call: FramedCall) -> Operator:
        """Process each frame as an image; refuse a window that also cuts along the frames."""
        self.window.check_per_frame()
        return super().per_frame(call)

    def _in_order(self, images: ImageInfo, window: Sequence[Step], values: Sequence[Step]) -> list[Step]:
        """Return the steps of a window and operations on values, in an order that keeps a fill in the window's pass."""
        # After the window, values are computed for its pixels alone: with this order, a resize and a normalized window
        # take half of the time. But `PassBuilder` starts another pass for values beside padding along other axes than
        # H and W, for dtypes that float32 does not represent, and after a rounding to 16-bit floats.
        half = is_float(images.dtype) and images.dtype != np.float32
        fused = set(self.window.axes) <= {"H", "W"} and fits_float32(images.dtype, self.dtype) and not half
        return [*window, *values] if fused or self.window.policy != "pad" else [*values, *window]


@dataclass(frozen=True)
class Crop(WindowOperator):
    """Crop of a window."""

    def infer(self, images: Spec, **place: Any) -> Spec:
        """Return the spec of the window."""
        layout, bounds = images.layout or self.window.layout, self.window.bounds(images, place)
        if self.window.policy == "pad":
            check_per_channel("fill_values", self.window.fill, images, self.window.layout)
        return Spec(self.dtype, self.window.shape(images, place), layout, bounds=bounds)

    def describe(self, images: ImageInfo, bits: Any, **place: Any) -> Sequence[Step]:
        """Return the steps: crop and cast, fill."""
        # The fill follows the cast because DALI takes fill_values in the units of the result, not of the input.
        steps = self._in_order(images, self.window.steps(images, place), [CastStep(self.dtype)])
        return [*steps, *self.window.fill_step(self.dtype)]


@operator("crop")
@rounds_to_bfloat16
def crop(
    data: Images,
    *,
    dtype: DType = None,
    image_type: DALIImageType | None = None,
    output_dtype: DType = None,
    **arguments: Unpack[CropArguments],
) -> DataNode:
    """Crop images, volumes, or sequences of them.

    Without a size the whole image is kept, as in DALI.

    Args:
        data: Images, volumes or sequences of any dtype; the layout needs H and W and defaults to HWC.
        dtype: Dtype of the result; by default that of the input. Integers saturate.
        image_type: Accepted for compatibility with DALI; it has no effect there or here.
        output_dtype: Older name of `dtype`.
        **arguments: See `CropArguments`.

    Returns:
        Cropped images in the layout of the input.

    Raises:
        DefinitionError: The size is given twice, or exceeds the known size of the images, or the number of fill values
            is wrong.
        SampleError: At run time, an image is smaller than the window and `out_of_bounds_policy` is "error", or has
            another number of channels than there are fill values.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.arange(12).reshape(1, 3, 4, 1), layout="HWC")
        ...     pipeline.set_outputs(fn.crop(images, crop=(1, 2)))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [5, 6]
    """
    del image_type
    layout = assumed_layout(data.spec, rank_4="DHWC")
    border = BORDERS.get(arguments.get("out_of_bounds_policy", "error"))
    policy: dict[str, Any] = {} if border is None else {"out_of_bounds_policy": "pad"}
    window, place = make_window({**arguments, **policy}, layout, frames=True)
    result = result_dtype(data.spec.dtype, dtype, output_dtype)
    if border is None:
        return apply(Crop(window, result), data, **place)
    return convert(apply(BorderWindow(Crop(window, result), border), data, **place), result)
