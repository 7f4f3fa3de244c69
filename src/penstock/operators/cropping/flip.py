"""Operator that flips images."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from penstock.core import Spec
from penstock.graph import Argument, DataNode, Images, apply, assumed_layout, operator
from penstock.image.describe.steps import ImageInfo, MirrorStep, Step
from penstock.image.image_operator import ImageOperator

# Axes of a layout and the arguments that flip them.
FLAGS = {"W": "horizontal", "H": "vertical", "D": "depthwise"}


@dataclass(frozen=True)
class Flip(ImageOperator):
    """Flip along the axes of a layout."""

    layout: str

    def infer(self, images: Spec, **_flags: Any) -> Spec:
        """Return the spec of the input, with the layout that the operator assumed."""
        return replace(images, layout=self.layout)

    def describe(self, images: ImageInfo, bits: Any, **flags: Any) -> Sequence[Step]:
        """Return one mirror step per spatial axis."""
        # Images have no axis D, so depthwise= has no effect on them.
        axes = [axis for axis in FLAGS if axis in self.layout]
        return [MirrorStep(self.layout.index(axis), flags[FLAGS[axis]] != 0) for axis in axes]


@operator("flip")
def flip(
    data: Images,
    *,
    horizontal: Annotated[int | DataNode, Argument(np.int32)] = 1,
    vertical: Annotated[int | DataNode, Argument(np.int32)] = 0,
    depthwise: Annotated[int | DataNode, Argument(np.int32)] = 0,
) -> DataNode:
    """Flip images, volumes, or sequences of them.

    Each flag is 0 or 1, or a node with one such number per sample.

    Args:
        data: Images, volumes or sequences of any dtype; the layout needs H and W and defaults to HWC.
        horizontal: 1 to exchange left and right.
        vertical: 1 to exchange top and bottom.
        depthwise: 1 to exchange front and back; it has no effect on images without a depth axis.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        DefinitionError: The layout has no height or no width.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.arange(3).reshape(1, 1, 3, 1), layout="HWC")
        ...     pipeline.set_outputs(fn.flip(images))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [2, 1, 0]
    """
    layout = assumed_layout(data.spec)
    return apply(Flip(layout), data, horizontal=horizontal, vertical=vertical, depthwise=depthwise)
