"""Operator that computes the median of each neighborhood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import Argument, DataNode, Input, apply, assumed_layout, operator
from penstock.image.describe.custom_pass import custom_steps
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.passes.median_pass import MedianPass
from penstock.operators.argument_limits import FLOAT32_EXACT


@dataclass(frozen=True)
class MedianBlur(ImageOperator):
    """Median of a rectangle around each pixel."""

    layout: str

    def infer(self, images: Spec, *, window_size: Any) -> Spec:
        """Return the spec of the input."""
        if not isinstance(window_size, Spec):
            if np.size(window_size) not in (1, 2):
                raise DefinitionError("window_size needs one or two numbers", given=window_size)
            _check(np.asarray(window_size))
        return images

    def describe(self, images: ImageInfo, bits: Any, *, window_size: Any) -> Sequence[Step]:
        """Return one pass with two radii per row."""
        xp = images.xp
        if xp is np:
            _check(window_size)
        # Users give (width, height), as in DALI; the pass takes rows first.
        radii = xp.broadcast_to(window_size, (len(window_size), 2))[:, ::-1] // 2
        return custom_steps(MedianPass(self.layout), images, images.sizes, (radii.astype(np.float32),), images.dtype)


def _check(sizes: Any) -> None:
    """Refuse even window sizes."""
    if (sizes % 2 == 0).any():
        raise DefinitionError("window_size must be odd", given=np.max(sizes), expected="an odd number")


@operator("median_blur")
def median_blur(
    data: Annotated[DataNode, Input(FLOAT32_EXACT, axes="HW", without="D")],
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
    return apply(MedianBlur(assumed_layout(data.spec)), data, window_size=window_size)
