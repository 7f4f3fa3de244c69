"""cast, cast_like: conversion to another dtype."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from penstock.core import Spec
from penstock.core.dataclass import dataclass
from penstock.graph import BatchContext, BatchKernel, DataNode, DType, apply, operator
from penstock.image.describe.steps import CastStep, ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.numerics.casting import cast_saturating
from penstock.types import as_dtype


@dataclass(frozen=True)
class Cast(ImageOperator, BatchKernel):
    """Conversion of all elements to a dtype."""

    dtype: np.dtype[Any]
    pixel_aligned: ClassVar[bool] = True

    def infer(self, data: Spec) -> Spec:
        """Return the spec with the new dtype."""
        return replace(data, dtype=self.dtype)

    def describe(self, images: ImageInfo, bits: Any) -> Sequence[Step]:
        """Return the conversion as a step, which other image operators can absorb."""
        return [CastStep(self.dtype)]

    def batch(self, context: BatchContext, data: Any) -> Any:
        """Convert a batch."""
        return cast_saturating(context.xp, data, self.dtype)


@operator("cast")
def cast(data: DataNode, *, dtype: DType) -> DataNode:
    """Convert values to another dtype.

    As in DALI, floats are rounded to integers, halves away from zero. Values out of range saturate. For BOOL, values
    that round to 0 become False and all others True.

    Args:
        data: Any shape, any dtype.
        dtype: Element type of the result, such as `types.FLOAT`.

    Returns:
        Same shape and layout, of type `dtype`.

    Raises:
        ArgumentTypeError: `dtype` is not an element type.

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


@operator("cast_like")
def cast_like(data: DataNode, other: DataNode) -> DataNode:
    """Convert values to the dtype of another value, as `fn.cast` does.

    Args:
        data: Any shape, any dtype.
        other: Value with the target dtype. Its elements are ignored.

    Returns:
        Same shape and layout as `data`, dtype of `other`.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     bytes_ = fn.readers.arrays(np.uint8([1, 2]))
        ...     pipeline.set_outputs(fn.cast_like(bytes_ * 300.5, bytes_))
        >>> pipeline.run()[0].as_array().tolist()
        [255, 255]
    """
    return apply(Cast(other.dtype), data)
