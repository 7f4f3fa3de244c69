"""Operator that computes the median of each neighborhood."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.graph import Argument, DataNode, apply, assumed_layout, operator
from penstock.image.describe.custom_pass import custom_steps
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.passes.median_pass import MedianPass
from penstock.operators.filters.window_operator import ExactPlanes, WindowOperator, check_odd


@dataclass(frozen=True)
class MedianBlur(WindowOperator):
    """Median of a rectangle around each pixel."""

    def check(self, **numbers: Any) -> None:
        """Refuse even window sizes."""
        for name, sizes in numbers.items():
            check_odd(name, sizes)

    def describe(self, images: ImageInfo, bits: Any, *, window_size: Any) -> Sequence[Step]:
        """Return one pass with two radii per row."""
        (window,) = self.by_row(images, window_size=window_size)
        # Users give (width, height), as in DALI; the pass takes rows first.
        radii = (window[:, ::-1] // 2).astype(np.float32)
        return custom_steps(MedianPass(self.layout), images, images.sizes, (radii,), self.dtype)


@operator("median_blur")
def median_blur(
    data: ExactPlanes,
    *,
    window_size: Annotated[int | Sequence[int] | DataNode, Argument(np.int32, (None,), low=1, example=3)] = (3, 3),
) -> DataNode:
    """Replace each pixel by the median of a rectangle around it, which removes outliers and keeps edges.

    Outside the image the edge pixels are repeated.

    Args:
        data: Images or sequences of a dtype whose values float32 represents exactly; the layout needs H and W and
            defaults to HWC. Channels are independent.
        window_size: Width and height of the rectangle, odd numbers of pixels, or one number for both, or a node with
            either per sample.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        DefinitionError: A window is even, the input is a volume, or its dtype is not supported.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[1], [2], [200], [3], [4]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.median_blur(images))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [1, 2, 3, 4, 4]
    """
    return apply(MedianBlur(assumed_layout(data.spec), data.spec.dtype), data, window_size=window_size)
