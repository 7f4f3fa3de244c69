"""What is known about a value before any data exists."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

Shape = tuple[int | None, ...]
"""The extents of one sample, without the batch axis; None where samples may differ."""


class ShapeKind(Enum):
    """How sure the shape of a sample is."""

    FIXED = "fixed"
    """The definition alone tells it."""
    SAME = "assumed-same"
    """A consumer needs one shape: sample 0 showed it, every later sample is checked against it."""
    RAGGED = "ragged"
    """Samples may differ."""


def bounds_or_none(extents: Iterable[int | None]) -> tuple[int, ...]:
    """The largest extents as `Spec` has them: none, where one of them is not known."""
    found = tuple(extents)
    return () if None in found else tuple(extent for extent in found if extent is not None)


@dataclass(frozen=True, slots=True)
class Spec:
    """dtype, shape and layout of one sample of a value.

    Args:
        dtype: the element type.
        shape: the extents of a sample; None for an extent in which samples may differ.
        layout: one letter per axis, such as "HWC"; empty where the axes have no names.
        assumed: whether the shape was read off sample 0 (extent SAME) rather than known (extent FIXED).
        bounds: the largest extents that samples can have, one per axis; empty where the definition sets no limit.

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
        """How sure the shape is."""
        if None in self.shape:
            return ShapeKind.RAGGED
        return ShapeKind.SAME if self.assumed else ShapeKind.FIXED

    @property
    def dense(self) -> bool:
        """Whether a batch of such samples can be one array."""
        return None not in self.shape

    @property
    def max_shape(self) -> Shape:
        """The largest extents, axis by axis; None where there is no limit."""
        return tuple(self.bounds) or self.shape

    @property
    def fixed_shape(self) -> tuple[int, ...]:
        """The shape of a dense value, with no extent left open."""
        return tuple(int(size) for size in self.shape if size is not None)  # a user may have written True for 1

    @property
    def storage_shape(self) -> tuple[int, ...] | None:
        """The extents of an array that holds any sample; None where there is no limit."""
        return self.fixed_shape if self.dense else self.bounds or None

    @property
    def nbytes(self) -> int:
        """The size of a dense value, in bytes."""
        return math.prod(self.fixed_shape) * self.dtype.itemsize

    def probe(self, shape: tuple[int, ...]) -> Spec:
        """This spec with the shape that sample 0 showed."""
        return replace(self, shape=shape, assumed=True)

    def accepts(self, sample: np.ndarray[Any, Any]) -> bool:
        """Whether `sample` is what this spec promises."""
        return sample.dtype == self.dtype and (
            sample.shape == self.shape
            or (
                sample.ndim == len(self.shape)
                and all(size in (None, given) for size, given in zip(self.shape, sample.shape, strict=True))
            )
        )

    def __str__(self) -> str:
        shape = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.dtype}[{shape}]" + (f" {self.layout}" if self.layout else "")
