"""The vocabulary in which an image operator describes its work. An executor does the work.

A step holds numbers, with one entry per row of the batch, and touches no pixel. Axes are numbers of axes of a sample,
in the layout that the images have when the step is reached. Whatever operators compose of these steps is executed in
one visit to the pixels where that gives the same result, bit by bit, as one after the other. What they do not say, such
as a warp, is a `CustomPass`, which has a visit of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.image.describe.axis_mapping import Rows

if TYPE_CHECKING:
    from penstock.image.describe.custom_pass import CustomPass


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """What is known of the images of some rows before there are pixels.

    Args:
        xp: the array namespace to describe with: `numpy`, or `jax.numpy` where an argument exists on devices only.
        rows: how many there are.
        sizes: per axis of a sample its extents, integers with an entry per row.
        dtype: of the pixels.
    """

    xp: Any
    rows: int
    sizes: Sequence[Rows]
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class CropStep:
    """A window: `length` pixels from `first` on.

    Args:
        axis: along which.
        first: integers, one per row.
        length: integers, one per row, at least 0.
        may_exceed: whether it may leave the image; what lies outside has no value until `FillStep` gives it one.
    """

    axis: int
    first: Rows
    length: Rows
    may_exceed: bool = False


@dataclass(frozen=True, slots=True)
class MirrorStep:
    """Pixels exchanged end for end along an axis, where a row's flag is set."""

    axis: int
    flags: Rows


@dataclass(frozen=True, slots=True)
class ResampleAxis:
    """What is resampled along one axis: from `low` to `high` (backwards mirrors), in pixels, to `size` pixels.

    Args:
        low: where the part begins, one number per row.
        high: where it ends.
        size: integers, at least 1.
        filters: the interpolation, a number of `penstock.types`.
    """

    low: Rows
    high: Rows
    size: Rows
    filters: Rows


@dataclass(frozen=True, slots=True)
class ResampleStep:
    """Separable resampling; values become float32, and `CastStep` rounds them.

    Args:
        parts: per axis.
        antialias: whether filters are stretched where an axis shrinks.
        reach: how far the filters reach to each side at most, in pixels, before they are stretched.
    """

    parts: Mapping[int, ResampleAxis]
    antialias: bool
    reach: float = 3.0


@dataclass(frozen=True, slots=True)
class ScaleStep:
    """``(value - mean) * factor + shift`` in float32. Each term is (rows, channels) or (rows, 1)."""

    mean: Any
    factor: Any
    shift: float = 0.0


@dataclass(frozen=True, slots=True)
class ColorMatrixStep:
    """Three channels made of three, in float32: each is the sum of all, times factors.

    Args:
        factors: (rows, 3, 3) or (1, 3, 3): per channel of the result its factor for each present channel.
    """

    factors: Any


@dataclass(frozen=True, slots=True)
class CastStep:
    """Another dtype, as `penstock.numerics.casting` converts: to the nearest value.

    Args:
        dtype: the new one.
        halves_up: round halves up, not away from zero, as the resize family does with bytes.
    """

    dtype: np.dtype[Any]
    halves_up: bool = False


@dataclass(frozen=True, slots=True)
class FillStep:
    """The value of what lies outside of the image: (rows, channels) or (rows, 1), in the present dtype."""

    values: Any


@dataclass(frozen=True, slots=True)
class TransposeStep:
    """The axes in another order.

    Args:
        order: per axis of the result the number of the present axis.
    """

    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CustomStep:
    """A transform that no other step says, in a pass of its own.

    Args:
        transform: what to do, the same for all rows.
        sizes: per axis the extents of the results, integers with an entry per row.
        terms: its numbers, each (rows, n) or (1, n), that float32 holds.
        dtype: of the results.
    """

    transform: CustomPass
    sizes: Sequence[Rows]
    terms: Sequence[Any]
    dtype: np.dtype[Any]


Step = (
    CropStep
    | MirrorStep
    | ResampleStep
    | ScaleStep
    | ColorMatrixStep
    | CastStep
    | FillStep
    | TransposeStep
    | CustomStep
)
