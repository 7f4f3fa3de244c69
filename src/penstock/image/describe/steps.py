"""Steps, in which image operators describe their work. Executors compute the pixels.

A step holds numbers, with one entry per row of the batch, and no pixels. Axes are numbered as in a sample, in the
layout that the images have before the step. Steps of several operators are combined into one visit to the pixels if the
result is bit-for-bit the same. An operation that no other step can express, such as a warp, is a `CustomStep` with a
`CustomPass`, which needs a separate visit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from penstock.core.dataclass import dataclass
from penstock.image.describe.axis_mapping import Rows

if TYPE_CHECKING:
    from penstock.image.describe.custom_pass import CustomPass


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """Sizes and dtype of the images of some rows, which are known before the pixels.

    Args:
        xp: Array namespace to describe with: `numpy`, or `jax.numpy` if an argument is only known on the device.
        rows: Number of rows.
        sizes: Extents per axis of a sample, integers with one entry per row.
        dtype: Dtype of the pixels.
    """

    xp: Any
    rows: int
    sizes: Sequence[Rows]
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class CropStep:
    """Window of `length` pixels along one axis, starting at `first`.

    Args:
        axis: Axis that is cut.
        first: Integers, one per row.
        length: Integers, one per row, at least 0.
        may_exceed: True if the window may leave the image. A `FillStep` of the same operator sets the value of pixels
            outside. Operations on values in between may need another pass, which is an error.
    """

    axis: int
    first: Rows
    length: Rows
    may_exceed: bool = False


@dataclass(frozen=True, slots=True)
class MirrorStep:
    """Reversal of an axis, for rows whose flag is set."""

    axis: int
    flags: Rows


@dataclass(frozen=True, slots=True)
class ResampleAxis:
    """Resampling of one axis.

    Args:
        low: Start of the ROI in pixels, one number per row.
        high: End of the ROI. Less than `low` to mirror it.
        size: Number of pixels of the result, integers, at least 1.
        filters: Interpolation, a value of `penstock.types`.
    """

    low: Rows
    high: Rows
    size: Rows
    filters: Rows


@dataclass(frozen=True, slots=True)
class ResampleStep:
    """Separable resampling to float32; a `CastStep` rounds the result.

    Args:
        parts: Resampling per axis.
        antialias: Stretch filters when an axis shrinks.
        reach: Largest radius of the filters, in pixels, before they are stretched.
    """

    parts: Mapping[int, ResampleAxis]
    antialias: bool
    reach: float = 3.0


class StepWithTerms:
    """Operation on values. Its terms are arrays with one entry per row, or one entry that all rows share."""

    __slots__ = ()
    term_names: ClassVar[tuple[str, ...]] = ()

    @property
    def terms(self) -> list[Any]:
        """Terms of the operation."""
        return [getattr(self, name) for name in self.term_names]

    def with_terms(self, terms: Iterable[Any]) -> Self:
        """Return the operation with other terms, in the same order."""
        return replace(cast(Any, self), **dict(zip(self.term_names, terms, strict=True)))


@dataclass(frozen=True, slots=True)
class ScaleStep(StepWithTerms):
    """``(value - mean) * factor + shift`` in float32. Each term is (rows, channels) or (rows, 1)."""

    mean: Any
    factor: Any
    shift: float = 0.0
    term_names = ("mean", "factor")


@dataclass(frozen=True, slots=True)
class ColorMatrixStep(StepWithTerms):
    """Linear map of three channels to three, in float32.

    Args:
        factors: Matrices (rows, 3, 3) or (1, 3, 3), from present channels (last axis) to new ones.
    """

    factors: Any
    term_names = ("factors",)


@dataclass(frozen=True, slots=True)
class CastStep(StepWithTerms):
    """Saturating cast to the nearest value, see `penstock.numerics.casting`.

    Args:
        dtype: New dtype.
        halves_up: Round halves up instead of away from zero, as DALI's resize operators do for uint8.
    """

    dtype: np.dtype[Any]
    halves_up: bool = False


@dataclass(frozen=True, slots=True)
class FillStep(StepWithTerms):
    """Value of pixels outside of the image: (rows, channels) or (rows, 1), in the present dtype."""

    values: Any
    term_names = ("values",)


def check_fill_count(count: int, channels: Rows) -> None:
    """Check that there is one fill value, or one per channel. Loops would repeat too few values.

    Args:
        count: Number of fill values.
        channels: Number of channels per image. Only a NumPy array is checked: specs tell those of the device program.

    Raises:
        ValueError: There is another number of them.
    """
    if count == 1 or not isinstance(channels, np.ndarray):
        return
    for extent in channels[channels != count][:1]:
        raise ValueError(f"there are {count} fill values, and the image has {extent} channels")


@dataclass(frozen=True, slots=True)
class TransposeStep:
    """Transposition.

    Args:
        order: Number of the present axis for each axis of the result.
    """

    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CustomStep:
    """Operation that no other step can express, in a separate pass.

    Args:
        transform: Operation, the same for all rows.
        sizes: Extents of the results per axis, integers with one entry per row.
        terms: Numbers of the operation, each (rows, n) or (1, n), exact in float32.
        dtype: Dtype of the results.
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
