"""equalize: spread the values of images evenly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.layouts import plane_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.steps import CustomStep, ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.passes.equalize_pass import EqualizePass as EqualizeTransform


@dataclass(frozen=True)
class Equalize(ImageOperator):
    """Histogram equalisation of each channel."""

    layout: str
    pixel_aligned: ClassVar[bool] = True

    def infer(self, images: Spec) -> Spec:
        """The input's."""
        if images.dtype != np.uint8:
            raise DefinitionError("fn.equalize takes bytes", given=images.dtype, expected="uint8")
        return replace(images, layout=self.layout)

    def describe(self, images: ImageInfo, bits: Any) -> Sequence[Step]:
        """One transform."""
        return [CustomStep(EqualizeTransform(self.layout), images.sizes, (), images.dtype)]


@operator("equalize")
def equalize(data: DataNode) -> DataNode:
    """Spread the values of images evenly: histogram equalisation, each channel for itself.

    The least value that occurs becomes 0 and the greatest 255; a channel of one value stays. The formula is OpenCV's.

    Args:
        data: images or sequences, uint8; layout with H and W (HWC where none is named).

    Returns:
        The images, in the same shape and layout.

    Raises:
        DefinitionError: another dtype than uint8, a volume.

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
    layout = plane_layout(data, "equalize")
    return apply(Equalize(layout), data)
