"""A pass: one visit to the pixels of some rows, and what becomes of their axes and values in it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.image.describe.axis_mapping import AxisMapping, where
from penstock.image.describe.steps import CastStep, ColorMatrixStep, CustomStep, FillStep, ScaleStep

_EXACT = frozenset(map(np.dtype, ("uint8", "int8", "uint16", "int16", "float16", "float32")))
"""What float32 holds without loss."""

Colour = ScaleStep | ColorMatrixStep | CastStep | FillStep
"""An operation on values."""


@dataclass(slots=True)
class PassAxis:
    """One axis of a pass.

    Args:
        numbers: what becomes of it.
        source: which axis of the memory that is read it is.
        letter: its letter in the layout, or "".
        moved: whether a window or a mirror was asked for.
        cut: whether a window was.
        reach: of the filters that resample it; 0 where it is not resampled.
        antialias: whether these are stretched where it shrinks.
    """

    numbers: AxisMapping
    source: int
    letter: str
    moved: bool = False
    cut: bool = False
    reach: float = 0.0
    antialias: bool = False


@dataclass(slots=True)
class Pass:
    """One visit to the pixels of some rows.

    Args:
        axes: in the order of the result.
        input_dtype: the dtype that is read.
        dtype: the dtype that is written.
        value_ops: operations on values, in order: Scale, Mix, Convert and Fill.
        resampled: whether pixels are computed.
        padded_axes: the axes beyond whose ends pixels may lie, by their number in the memory that is read.
        moved: whether a window, a mirror or another order of the axes was asked for.
        mirrored: whether a mirror was.
        channel: the axis that terms of operations have an entry for, likewise; None where there is none.
        apply: the transform that is all that this pass does; the axes then have the extents of its result.
    """

    axes: list[PassAxis]
    input_dtype: np.dtype[Any]
    dtype: np.dtype[Any]
    channel: int | None
    value_ops: list[Colour] = field(default_factory=list[Any])
    resampled: bool = False
    padded_axes: set[int] = field(default_factory=set[int])
    moved: bool = False
    mirrored: bool = False
    apply: CustomStep | None = None

    @property
    def rows(self) -> int:
        """How many rows it is described for."""
        return len(self.axes[0].numbers.begin) if self.axes else 0

    @property
    def shapes(self) -> NDArray[np.int64]:
        """The extents of each row's result, (rows, axes)."""
        result = np.empty((self.rows, len(self.axes)), np.int64)
        for at, axis in enumerate(self.axes):
            result[:, at] = axis.numbers.length
        return result

    @property
    def input_shapes(self) -> NDArray[np.int64]:
        """The extents of each row's image as it is read, (rows, axes), where all axes stay in their order."""
        return np.stack([axis.numbers.end for axis in self.axes], axis=1).astype(np.int64)

    @property
    def computes(self) -> bool:
        """Whether values change; else they are moved as they are, whatever their dtype."""
        return (
            self.resampled or self.input_dtype != self.dtype or any(not isinstance(c, FillStep) for c in self.value_ops)
        )

    @property
    def casts_inexactly(self) -> bool:
        """Whether values that float32 does not hold are converted: nothing can be computed after that."""
        return any(isinstance(c, CastStep) for c in self.value_ops) and not fits_float32(self.input_dtype, self.dtype)

    @property
    def is_identity(self) -> bool:
        """Whether the result is what is read."""
        return not (self.moved or self.computes or self.value_ops or self.apply)

    @property
    def mixes(self) -> bool:
        """Whether each channel is made of all of them."""
        return any(isinstance(colour, ColorMatrixStep) for colour in self.value_ops)

    def take(self, rows: slice | NDArray[np.int64]) -> Pass:
        """The same for fewer rows."""
        if isinstance(rows, slice) and rows == slice(0, self.rows):
            return self
        axes = [PassAxis(axis.numbers.of(rows), axis.source, axis.letter) for axis in self.axes]
        colours: list[Any] = [_of(colour, rows) for colour in self.value_ops]
        apply = self.apply and replace(self.apply, terms=[_part(term, rows) for term in self.apply.terms])
        return replace(self, axes=axes, value_ops=colours, apply=apply)


def _of(colour: Colour, rows: slice | NDArray[np.int64]) -> Colour:
    match colour:
        case ScaleStep(mean, factor, shift):
            return ScaleStep(_part(mean, rows), _part(factor, rows), shift)
        case ColorMatrixStep(factors):
            return ColorMatrixStep(_part(factors, rows))
        case FillStep(values):
            return FillStep(_part(values, rows))
        case CastStep():
            return colour


def _part(term: Any, rows: slice | NDArray[np.int64]) -> Any:
    """Some rows of a term; one that is the same for all rows stays."""
    return term if len(term) == 1 else term[rows]


def fits_float32(*dtypes: np.dtype[Any]) -> bool:
    """Whether float32 holds all values of these dtypes."""
    return _EXACT.issuperset(dtypes)


def offsets(axis: PassAxis) -> NDArray[np.int64]:
    """The first index along an axis, in the order of the result."""
    numbers = axis.numbers
    first = numbers.begin + numbers.start
    return where(numbers.mirrored, first + numbers.length - 1, first).astype(np.int64)


def directions(axis: PassAxis) -> NDArray[np.int64]:
    """1, or -1 where the axis is walked backwards."""
    return np.where(axis.numbers.mirrored, -1, 1)


def range_inside(axis: PassAxis) -> tuple[Any, Any]:
    """Which of the wanted pixels of an axis lie in the image, in the order of the result: from, to; per row."""
    numbers = axis.numbers
    low = np.minimum(np.maximum(-numbers.start, 0), numbers.length)  # `np.clip` takes three times longer
    high = np.minimum(np.maximum(numbers.end - numbers.begin - numbers.start, low), numbers.length)
    turned = numbers.mirrored
    return where(turned, numbers.length - high, low), where(turned, numbers.length - low, high)
