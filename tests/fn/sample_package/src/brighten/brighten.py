"""brighten: every element times a factor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.extend import (
    Argument,
    CastStep,
    DataNode,
    ImageInfo,
    ImageOperator,
    ScaleStep,
    Spec,
    Step,
    apply,
    operator,
)


@dataclass(frozen=True)
class Brighten(ImageOperator):
    """Multiplication of every element."""

    def infer(self, images: Spec, *, factor: Any) -> Spec:
        """Return the input's spec."""
        return images

    def describe(self, images: ImageInfo, bits: Any, *, factor: Any) -> Sequence[Step]:
        """Scale in float32, and convert to the input's dtype."""
        return [ScaleStep(np.zeros((1, 1), np.float32), factor[:, None]), CastStep(images.dtype)]


@operator("brighten")
def brighten(images: DataNode, *, factor: Annotated[float | DataNode, Argument(np.float32, low=0.0)] = 1.5) -> DataNode:
    """Multiply every element by a factor.

    Args:
        images: Any dtype, any layout.
        factor: At least 0; a number, or a node with one per sample.

    Returns:
        Same shape, dtype and layout; integers are rounded and saturate.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[10]]], [[[200]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.brighten(images, factor=2))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [20, 255]
    """
    return apply(Brighten(), images, factor=factor)
