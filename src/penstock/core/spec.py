"""Specs: dtype, shape and layout of values, known before any data."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np

from penstock.core.dataclass import dataclass

# Extents of one sample, without the batch axis; None for extents in which samples may differ.
Shape = tuple[int | None, ...]

# The fix of errors about ragged values.
ONE_SHAPE_FIX = "fn.crop(..., crop=(height, width)), fn.pad(..., shape=...) or fn.resize(..., size=(height, width))"


class ShapeKind(Enum):
    """Certainty of the shape of samples."""

    FIXED = "fixed"
    """Follows from the definition."""
    SAME = "assumed-same"
    """Taken from sample 0, because a consumer needs one shape. Every later sample is checked against it."""
    RAGGED = "ragged"
    """Differs between samples."""


def bounds_or_none(extents: Iterable[int | None]) -> tuple[int, ...]:
    """Return the bounds for a `Spec`: empty if one of the extents is unknown."""
    bounds = tuple(extents)
    return () if None in bounds else tuple(extent for extent in bounds if extent is not None)


@dataclass(frozen=True, slots=True)
class Spec:
    """Dtype, shape and layout of one sample of a value.

    Args:
        dtype: The element type.
        shape: The extents of a sample; None for an extent in which samples may differ.
        layout: One letter per axis, such as "HWC"; empty for unnamed axes.
        assumed: True if the shape is that of sample 0 (`ShapeKind.SAME`).
        bounds: The largest extents that samples can have, one per axis; empty if the definition sets no limit.

    >>> Spec(np.dtype("uint8"), (None, None, 3), "HWC").extent
    <ShapeKind.RAGGED: 'ragged'>
    """

    dtype: np.dtype[Any]
    shape: Shape
    layout: str = ""
    assumed: bool = False
    bounds: tuple[int, ...] = ()

    @property
    def extent(self) -> ShapeKind:
        """Certainty of the shape."""
        if None in self.shape:
            return ShapeKind.RAGGED
        return ShapeKind.SAME if self.assumed else ShapeKind.FIXED

    @property
    def dense(self) -> bool:
        """True if a batch of such samples can be one array."""
        return None not in self.shape

    @property
    def max_shape(self) -> Shape:
        """The largest extent of each axis; None if there is no limit."""
        return tuple(self.bounds) or self.shape

    @property
    def fixed_shape(self) -> tuple[int, ...]:
        """The shape of a dense value."""
        # `int`, because users write shapes, and True is an int.
        return tuple(int(size) for size in self.shape if size is not None)

    @property
    def storage_shape(self) -> tuple[int, ...] | None:
        """The shape of an array that holds any sample; None if there is no limit."""
        return self.fixed_shape if self.dense else self.bounds or None

    @property
    def nbytes(self) -> int:
        """The size of a sample of a dense value, in bytes."""
        return math.prod(self.fixed_shape) * self.dtype.itemsize

    def probe(self, shape: tuple[int, ...]) -> Spec:
        """Return this spec with the shape of sample 0."""
        return replace(self, shape=shape, assumed=True)

    def accepts(self, sample: np.ndarray[Any, Any]) -> bool:
        """True if a sample has this dtype and shape."""
        return sample.dtype == self.dtype and (
            sample.shape == self.shape
            or (
                sample.ndim == len(self.shape)
                and all(size in (None, extent) for size, extent in zip(self.shape, sample.shape, strict=True))
            )
        )

    def __str__(self) -> str:
        shape = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.dtype}[{shape}]" + (f" {self.layout}" if self.layout else "")
