"""A pass: one visit to the pixels of some rows, with the mappings of its axes and its operations on values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.dataclass import dataclass
from penstock.image.describe.axis_mapping import AxisMapping, Rows, identity, where
from penstock.image.describe.steps import CastStep, ColorMatrixStep, CustomStep, FillStep, ScaleStep
from penstock.types import is_bfloat16

# Dtypes, besides bfloat16, whose values float32 represents exactly.
_EXACT = frozenset(map(np.dtype, ("uint8", "int8", "uint16", "int16", "float16", "float32")))

ValueStep = ScaleStep | ColorMatrixStep | CastStep | FillStep
"""Operation on values."""


@dataclass(slots=True)
class PassAxis:
    """Axis of the result of a pass.

    Args:
        numbers: Mapping of the axis.
        source: Number of the axis in the input.
        letter: Letter of the axis in the layout, or "".
        moved: True if a step cuts or mirrors the axis, even if its numbers change nothing.
        cut: True if a step cuts the axis.
        reach: Radius of the filters that resample the axis; 0 if it is not resampled.
        antialias: True if these filters are stretched when the axis shrinks.
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
        axes: Axes, in the order of the result.
        input_dtype: Dtype of the input.
        dtype: Dtype of the result.
        value_ops: Operations on values, in order.
        resampled: True if axes are resampled.
        padded_axes: Axes of the input whose window may leave the image.
        moved: True if a step cuts, mirrors or transposes axes.
        mirrored: True if a step mirrors an axis.
        channel: Axis of the input along which terms of operations have one entry per element; None if there is none.
        apply: Custom step, which then is all that the pass does. The axes have the extents of its result.
    """

    axes: list[PassAxis]
    input_dtype: np.dtype[Any]
    dtype: np.dtype[Any]
    channel: int | None
    value_ops: list[ValueStep] = field(default_factory=list[Any])
    resampled: bool = False
    padded_axes: set[int] = field(default_factory=set[int])
    moved: bool = False
    mirrored: bool = False
    apply: CustomStep | None = None

    @staticmethod
    def identity(extents: Sequence[Rows], letters: Sequence[str], dtype: np.dtype[Any]) -> Pass:
        """Return a pass that does nothing yet.

        Args:
            extents: Extents of the images per axis, integers with one entry per row.
            letters: Letter of each axis in the layout, or "".
            dtype: Dtype of the images.
        """
        axes = [
            PassAxis(identity(extent), at, letter)
            for at, (extent, letter) in enumerate(zip(extents, letters, strict=True))
        ]
        # Terms of operations may differ along the channels, or along the last axis if there is no C.
        channel = letters.index("C") if "C" in letters else len(letters) - 1 if letters else None
        return Pass(axes, dtype, dtype, channel)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.axes[0].numbers.begin) if self.axes else 0

    @property
    def shapes(self) -> NDArray[np.int64]:
        """Shapes of the results, (rows, axes)."""
        result = np.empty((self.rows, len(self.axes)), np.int64)
        for at, axis in enumerate(self.axes):
            result[:, at] = axis.numbers.length
        return result

    @property
    def input_shapes(self) -> NDArray[np.int64]:
        """Shapes of the input, (rows, axes). Valid for passes that do not transpose axes."""
        return np.stack([axis.numbers.end for axis in self.axes], axis=1).astype(np.int64)

    @property
    def computes(self) -> bool:
        """True if values change; otherwise elements of any dtype are only copied."""
        return (
            self.resampled or self.input_dtype != self.dtype or any(not isinstance(c, FillStep) for c in self.value_ops)
        )

    @property
    def lacks_fill(self) -> bool:
        """True if pixels outside of the image still have no value."""
        return bool(self.padded_axes) and not any(isinstance(step, FillStep) for step in self.value_ops)

    @property
    def casts_inexactly(self) -> bool:
        """True if the pass casts from or to a dtype that float32 cannot represent. Such a cast must come last."""
        return any(isinstance(c, CastStep) for c in self.value_ops) and not fits_float32(self.input_dtype, self.dtype)

    @property
    def is_identity(self) -> bool:
        """True if the result equals the input."""
        return not (self.moved or self.computes or self.value_ops or self.apply)

    @property
    def mixes(self) -> bool:
        """True if channels are mixed."""
        return any(isinstance(step, ColorMatrixStep) for step in self.value_ops)

    @property
    def fixes_channels(self) -> bool:
        """True if a step has one number per channel, and therefore depends on their number and order."""
        return any(term.shape[1] > 1 for step in self.value_ops for term in step.terms)

    def take(self, rows: slice | NDArray[np.int64]) -> Pass:
        """Return the pass for some of the rows."""
        if isinstance(rows, slice) and rows == slice(0, self.rows):
            return self
        axes = [replace(axis, numbers=axis.numbers.of(rows)) for axis in self.axes]
        value_ops = [step.with_terms(_part(term, rows) for term in step.terms) for step in self.value_ops]
        apply = self.apply and replace(self.apply, terms=[_part(term, rows) for term in self.apply.terms])
        return replace(self, axes=axes, value_ops=value_ops, apply=apply)


def _part(term: Any, rows: slice | NDArray[np.int64]) -> Any:
    """Return some rows of a term, which has one row if all rows share it."""
    return term if len(term) == 1 else term[rows]


def fits_float32(*dtypes: np.dtype[Any]) -> bool:
    """Return True if float32 represents all values of these dtypes exactly."""
    return all(dtype in _EXACT or is_bfloat16(dtype) for dtype in dtypes)


def offsets(axis: PassAxis) -> NDArray[np.int64]:
    """Return the index in the input of the first element of the result."""
    numbers = axis.numbers
    first = numbers.begin + numbers.start
    return where(numbers.mirrored, first + numbers.length - 1, first).astype(np.int64)


def directions(axis: PassAxis) -> NDArray[np.int64]:
    """Return 1, or -1 for rows whose axis is mirrored."""
    return np.where(axis.numbers.mirrored, -1, 1)


def range_inside(axis: PassAxis) -> tuple[Any, Any]:
    """Return the range of the result, per row, whose pixels are inside of the image."""
    numbers = axis.numbers
    # np.clip takes three times longer than minimum and maximum.
    low = np.minimum(np.maximum(-numbers.start, 0), numbers.length)
    high = np.minimum(np.maximum(numbers.end - numbers.begin - numbers.start, low), numbers.length)
    mirrored = numbers.mirrored
    return where(mirrored, numbers.length - high, low), where(mirrored, numbers.length - low, high)
