"""gaussian_blur: blur images and volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.layouts import by_axis, spatial_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.custom_pass import custom_steps
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.passes.gaussian_blur_pass import GaussianBlurPass
from penstock.numerics.casting import output_dtype
from penstock.types import DALIDataType


@dataclass(frozen=True)
class GaussianBlur(ImageOperator):
    """A Gaussian blur.

    Args:
        layout: of the images.
        dtype: of the results.
    """

    layout: str
    dtype: np.dtype[Any]
    pixel_aligned: ClassVar[bool] = True
    schema: ClassVar[Mapping[str, Argument]] = {
        "sigma": Argument(np.float32, (None,), low=0, high=1e4),
        "window_size": Argument(np.int32, (None,), low=0, high=1 << 16, example=5.0),
    }

    @property
    def axes(self) -> int:
        """How many spatial axes there are."""
        return 3 if "D" in self.layout else 2

    def infer(self, images: Spec, *, sigma: Any, window_size: Any) -> Spec:
        """The input's, in the dtype that is wanted."""
        for name, given in (("sigma", sigma), ("window_size", window_size)):
            if not isinstance(given, Spec) and np.size(given) not in (1, self.axes):
                raise DefinitionError(f"fn.gaussian_blur: {name} is one number, or one per axis", given=given)
        if not isinstance(sigma, Spec) and not isinstance(window_size, Spec):
            sigmas, windows = (np.broadcast_to(np.ravel(given), self.axes) for given in (sigma, window_size))
            _check(sigmas, windows)
        return replace(images, dtype=self.dtype)

    def describe(self, images: ImageInfo, bits: Any, *, sigma: Any, window_size: Any) -> Sequence[Step]:
        """Standard deviations and radii, where one follows from the other."""
        xp, rows = images.xp, max(len(sigma), len(window_size))
        sigma, window = (xp.broadcast_to(given, (rows, self.axes)) for given in (sigma, window_size))
        if xp is np:
            _check(sigma, window)
        radius = xp.where(window > 0, (window - 1) // 2, xp.ceil(3 * sigma).astype(np.int32))
        sigma = xp.where(sigma > 0, sigma, (radius - 1).astype(np.float32) * np.float32(0.3) + np.float32(0.8))
        numbers = [by_axis(each, self.layout) for each in (sigma, radius.astype(np.float32))]
        return custom_steps(
            GaussianBlurPass(self.layout), images, images.sizes, (xp.concatenate(numbers, axis=1),), self.dtype
        )


def _check(sigma: Any, window: Any) -> None:
    if ((sigma == 0) & (window == 0)).any():
        raise DefinitionError(
            "fn.gaussian_blur: neither sigma nor window_size is given", given="0 for both", fix="sigma=1.5"
        )
    if ((window > 0) & (window % 2 == 0)).any():
        raise DefinitionError(
            "fn.gaussian_blur: window_size is odd", given=f"window_size={np.max(window)}", expected="an odd number"
        )


@operator("gaussian_blur")
def gaussian_blur(
    data: DataNode,
    *,
    sigma: float | Sequence[float] | DataNode = 0.0,
    window_size: int | Sequence[int] | DataNode = 0,
    dtype: DALIDataType | Any = None,
) -> DataNode:
    """Blur images or volumes with a Gaussian.

    Beyond its edge an image is mirrored, without its outermost pixels. Sums are in float32.

    Args:
        data: images, volumes or sequences of any dtype; layout with H and W (where none is named, HW or DHW).
        sigma: the standard deviation in pixels: a number, one for each of D, H and W in the order of the layout, or a
            node with either per sample. Where it is 0 it follows from the window, as 0.3 * (radius - 1) + 0.8.
        window_size: how many pixels have a weight, an odd number; likewise. Where it is 0 it follows from sigma: three
            standard deviations to each side.
        dtype: of the result: FLOAT or the input's, which it is by default.

    Returns:
        The blurred images, in the input's shape and layout.

    Raises:
        DefinitionError: neither sigma nor window, an even window, a dtype that is not offered.

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
    layout = spatial_layout(data, "gaussian_blur")
    result = output_dtype(data.spec.dtype, dtype, "gaussian_blur")
    blur = GaussianBlur(layout, result)
    return apply(blur, data, sigma=sigma, window_size=window_size)
