"""cast_like: conversion to the dtype of another value."""

from __future__ import annotations

from penstock.graph import DataNode, apply, operator
from penstock.operators.elementwise.cast import Cast


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
