"""median_blur: the median of the pixels around each one."""

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
from penstock.image.describe.custom_pass import custom_steps
from penstock.image.describe.pixel_pass import fits_float32
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.passes.median_pass import MedianPass


@dataclass(frozen=True)
class MedianBlur(ImageOperator):
    """A median."""

    layout: str
    schema: ClassVar[Mapping[str, Argument]] = {"window_size": Argument(np.int32, (None,), low=1, example=3)}

    def infer(self, images: Spec, *, window_size: Any) -> Spec:
        """The input's."""
        if not fits_float32(images.dtype):
            raise DefinitionError(
                "fn.median_blur takes images that float32 holds", given=images, expected="such as uint8 or float32"
            )
        if not isinstance(window_size, Spec):
            if np.size(window_size) not in (1, 2):
                raise DefinitionError("fn.median_blur: window_size is one number, or two", given=window_size)
            _check(np.asarray(window_size))
        return images

    def describe(self, images: ImageInfo, bits: Any, *, window_size: Any) -> Sequence[Step]:
        """Two radii. Users give columns first, transforms take rows first."""
        xp = images.xp
        if xp is np:
            _check(window_size)
        radii = xp.broadcast_to(window_size, (len(window_size), 2))[:, ::-1] // 2
        return custom_steps(MedianPass(self.layout), images, images.sizes, (radii.astype(np.float32),), images.dtype)


def _check(sizes: Any) -> None:
    if (sizes % 2 == 0).any():
        raise DefinitionError("fn.median_blur: window_size is odd", given=np.max(sizes), expected="an odd number")


@operator("median_blur")
def median_blur(data: DataNode, *, window_size: int | Sequence[int] | DataNode = (3, 3)) -> DataNode:
    """Replace each pixel by the median of a rectangle around it: single odd pixels vanish, edges stay.

    Beyond the edge, the outermost pixels go on.

    Args:
        data: images or sequences; any dtype that float32 holds; layout with H and W (HWC where none is named).
            Channels are independent.
        window_size: width and height of the rectangle, odd numbers, or one number for both; a node has either per
            sample.

    Returns:
        Same shape, dtype and layout.

    Raises:
        DefinitionError: an even window, a volume, a dtype that is not offered.

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
    layout = image_layout(data, "median_blur")
    if "D" in layout:
        raise DefinitionError(
            "fn.median_blur takes images, not volumes", given=f"layout {layout!r}", expected="HWC, FHWC"
        )
    return apply(MedianBlur(layout), data, window_size=window_size)
