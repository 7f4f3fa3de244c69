"""Operator that blurs images and volumes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph import Argument, DataNode, DType, apply, by_axis, operator
from penstock.image.describe.custom_pass import custom_steps
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.passes.gaussian_blur_pass import GaussianBlurPass
from penstock.numerics.casting import output_dtype
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.filters.window_operator import (
    Filtered,
    WindowOperator,
    as_image,
    as_signal,
    check_filtered,
    check_odd,
    for_row,
    volume_layout,
)


@dataclass(frozen=True)
class GaussianBlur(WindowOperator):
    """Gaussian blur."""

    pixel_aligned: ClassVar[bool] = True

    def check(self, **numbers: Any) -> None:
        """Refuse even windows, and axes with neither a sigma nor a window."""
        if "window_size" in numbers:
            window = numbers["window_size"]
            check_odd("window_size", window[window > 0])
        if len(numbers) == 2 and ((numbers["sigma"] == 0) & (numbers["window_size"] == 0)).any():
            raise DefinitionError("sigma or window_size must be set", given="0 for both", fix="sigma=1.5")

    def describe(self, images: ImageInfo, bits: Any, *, sigma: Any, window_size: Any) -> Sequence[Step]:
        """Return one blur, with the standard deviations and radii of each row."""
        xp = images.xp
        sigma, window = self.by_row(images, sigma=sigma, window_size=window_size)
        # DALI's formulas, the second one from OpenCV: radius = ceil(3 sigma), or sigma = 0.3 (radius - 1) + 0.8.
        radius = xp.where(window > 0, (window - 1) // 2, xp.ceil(3 * sigma).astype(np.int32))
        sigma = xp.where(sigma > 0, sigma, (radius - 1).astype(np.float32) * np.float32(0.3) + np.float32(0.8))
        # Users give numbers in the order of the layout, and the pass takes the order D, H, W.
        numbers = [by_axis(value, self.layout) for value in (sigma, radius.astype(np.float32))]
        return custom_steps(
            GaussianBlurPass(self.layout), images, images.sizes, (xp.concatenate(numbers, axis=1),), self.dtype
        )


@operator("gaussian_blur")
@rounds_to_bfloat16
def gaussian_blur(
    data: Filtered,
    *,
    sigma: Annotated[float | Sequence[float] | DataNode, Argument(np.float32, (None,), low=0, high=1e4)] = 0.0,
    window_size: Annotated[
        int | Sequence[int] | DataNode, Argument(np.int32, (None,), low=0, high=1 << 16, example=5.0)
    ] = 0,
    dtype: DType = None,
) -> DataNode:
    """Blur images or volumes with a Gaussian filter.

    Outside the image the filter reads the mirrored image without its edge pixels. Sums are in float32.

    Args:
        data: Images, volumes or sequences of any dtype; the layout needs H and W and defaults to HW or DHW, as in
            DALI: name the axes of images with channels. Also signals of one spatial axis, or sequences of them.
        sigma: Standard deviation in pixels: one number, one for each of D, H and W in the order of the layout, or a
            node with either per sample. 0 means ``0.3 * (radius - 1) + 0.8``, with the radius of the window.
        window_size: Odd number of pixels in the window, in the same form as `sigma`. 0 means three standard deviations
            to each side.
        dtype: Dtype of the result, FLOAT or that of the input; by default that of the input.

    Returns:
        Blurred images in the shape and layout of the input.

    Raises:
        DefinitionError: Neither `sigma` nor `window_size` is set, a window is even, or the dtype is not supported.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[0], [0], [200], [0], [0]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.gaussian_blur(images, window_size=3))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [0, 48, 104, 48, 0]
    """
    if check_filtered(data.spec):
        # A window of one row leaves the height as it is.
        rows = gaussian_blur(as_image(data), sigma=for_row(0, sigma), window_size=for_row(1, window_size), dtype=dtype)
        return as_signal(rows, data.spec.layout)
    kernel = GaussianBlur(volume_layout(data), output_dtype(data.spec.dtype, dtype))
    return apply(kernel, data, sigma=sigma, window_size=window_size)
