"""cast: another element type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from penstock.core.spec import Spec
from penstock.graph.ir.operator import BatchContext, BatchKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.steps import CastStep, ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.numerics.casting import cast_saturating
from penstock.types import as_dtype


@dataclass(frozen=True)
class Cast(ImageOperator, BatchKernel):
    """Conversion of every element."""

    dtype: np.dtype[Any]
    pixel_aligned: ClassVar[bool] = True

    def infer(self, data: Spec) -> Spec:
        """The input's, with the other dtype."""
        return replace(data, dtype=self.dtype)

    def describe(self, images: ImageInfo, bits: Any) -> Sequence[Step]:
        """The conversion."""
        return [CastStep(self.dtype)]

    def batch(self, context: BatchContext, data: Any) -> Any:
        """The converted batch."""
        return cast_saturating(context.xp, data, self.dtype)


@operator("cast")
def cast(data: DataNode, *, dtype: Any) -> DataNode:
    """Convert every element to another type.

    Floats become integers by rounding, halves away from zero; values that do not fit become the nearest that do;
    whatever is not 0 becomes True.

    Args:
        data: any shape, any dtype.
        dtype: the element type to convert to, such as `types.FLOAT`.

    Returns:
        Same shape and layout, element type `dtype`.

    Raises:
        ArgumentTypeError: `dtype` names no element type.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn, types
        >>> pipeline = penstock.Pipeline(batch_size=3)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([-1.5, 0.5, 300]))
        ...     pipeline.set_outputs(fn.cast(numbers, dtype=types.UINT8))
        >>> pipeline.run()[0].as_array().tolist()
        [0, 1, 255]
    """
    return apply(Cast(as_dtype(dtype)), data)
