"""`fn.equalize`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from penstock.core import Spec
from penstock.graph import DataNode, Input, apply, assumed_layout, operator
from penstock.image.describe.steps import CustomStep, ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.passes.equalize_pass import EqualizePass


@dataclass(frozen=True)
class Equalize(ImageOperator):
    """Histogram equalization of each channel."""

    layout: str
    pixel_aligned: ClassVar[bool] = True

    def infer(self, images: Spec) -> Spec:
        """Return the spec of the images."""
        return replace(images, layout=self.layout)

    def describe(self, images: ImageInfo, bits: Any) -> Sequence[Step]:
        """Return one pass: a histogram needs all pixels of a channel, so it does not fuse."""
        return [CustomStep(EqualizePass(self.layout), images.sizes, (), images.dtype)]


@operator("equalize")
def equalize(data: Annotated[DataNode, Input(("uint8",), axes="HW", without="D")]) -> DataNode:
    """Equalize the histogram of each channel of images.

    The smallest value of a channel becomes 0 and the largest 255; a constant channel does not change. Uses OpenCV's
    formula.

    Args:
        data: Images or sequences, uint8; layout with H and W (HWC if the input has none).

    Returns:
        Images with the shape and layout of the input.

    Raises:
        DefinitionError: If the dtype is not uint8, or the input is a volume.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[7], [8], [9], [9]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.equalize(images))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [0, 85, 255, 255]
    """
    return apply(Equalize(assumed_layout(data.spec)), data)
