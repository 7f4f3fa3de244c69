"""The numbers of a chain as one vector per row: the host describes and packs, the device program executes.

The composition of a chain into passes is the same for all rows; only numbers differ. So a vector has a fixed layout:
pass by pass, per axis the taps of its filter or the window, then the terms of the operations on values. Integers are
exact in float32 up to 2**24.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.errors import InternalError
from penstock.graph.ir.fusion import Passes
from penstock.image.describe.axis_mapping import most_taps
from penstock.image.describe.pixel_pass import Pass, PassAxis, directions, fits_float32, offsets, range_inside
from penstock.image.describe.steps import ColorMatrixStep, FillStep, ScaleStep
from penstock.image.kernels.filter_taps import taps_of_rows


@dataclass(frozen=True, slots=True)
class AxisPacking:
    """How an axis of a pass lies in the vector.

    Args:
        source: which axis of the memory that is read it is.
        length: how many pixels of the result there are at most.
        most: how many pixels make one, where it is resampled; 0 where pixels are picked: then the vector has the first
            one, the direction, and from where to where they lie in the image.
        moved: whether the vector has anything; else the axis stays as it is.
    """

    source: int
    length: int
    most: int
    moved: bool

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return self.length * (1 + self.most) if self.most else 4 if self.moved else 0


@dataclass(frozen=True, slots=True)
class PassPacking:
    """How a pass lies in the vector.

    Args:
        outline: the pass, described for one row, whose numbers do not count.
        axes: in the order of the memory that is read.
        terms: per operation on values the widths of its terms.
    """

    outline: Pass
    axes: tuple[AxisPacking, ...]
    terms: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return sum(axis.size for axis in self.axes) + sum(map(sum, self.terms)) + sum(self.applied)

    @property
    def applied(self) -> tuple[int, ...]:
        """The widths of what a transform needs: the extents of what it reads and makes, and its terms."""
        apply, axes = self.outline.apply, len(self.axes)
        return (axes, axes, *(term.shape[1] for term in apply.terms)) if apply else ()


class ImageCanvasProgram:
    """A chain whose work is described on the host and done in the device program.

    Args:
        outline: its passes, described for one row with images of the largest size.
        limits: the extents of the largest image.

    Raises:
        ValueError: its values are none that float32 holds.
    """

    def __init__(self, outline: Sequence[Pass], limits: Sequence[int]) -> None:
        self._plans: list[PassPacking] = []
        for each in outline:
            if not fits_float32(each.input_dtype, each.dtype):
                inexact = each.dtype if fits_float32(each.input_dtype) else each.input_dtype
                raise ValueError(f"{inexact} values are not exact in float32")
            axes = [_axis_plan(axis, limits[axis.source]) for axis in _by_source(each)]
            terms = [tuple(term.shape[1] for term in terms_of(colour)) for colour in each.value_ops]
            self._plans.append(PassPacking(each, tuple(axes), tuple(terms)))
            limits = [axes[axis.source].length for axis in each.axes]
        self._size = sum(plan.size for plan in self._plans)

    @property
    def size(self) -> int:
        """How many numbers describe a row."""
        return self._size

    def pack(self, passes: Passes) -> NDArray[np.float32]:
        """The numbers of some rows."""
        if len(passes.passes) != len(self._plans):
            raise InternalError("a chain is composed in another way than it was planned")
        parts: list[NDArray[Any]] = []
        for plan, each in zip(self._plans, passes.passes, strict=True):
            for planned, axis in zip(plan.axes, _by_source(each), strict=True):
                parts += _taps(planned, axis) if planned.most else _window(axis) if planned.moved else []
            if each.apply:
                numbers = (each.input_shapes, each.shapes, *each.apply.terms)
                parts += [np.broadcast_to(t, (each.rows, w)) for t, w in zip(numbers, plan.applied, strict=True)]
            for widths, colour in zip(plan.terms, each.value_ops, strict=True):
                parts += [
                    np.broadcast_to(t, (each.rows, width)) for t, width in zip(terms_of(colour), widths, strict=True)
                ]
        rows = len(passes.shapes)
        packed = np.empty((rows, self.size), np.float32)
        return np.concatenate(parts, axis=1, out=packed, casting="same_kind") if parts else packed

    def trace(self, data: Any, numbers: Any) -> Any:
        """The result for a batch, computed by XLA."""
        from penstock.image.execute.xla_executor import trace_packed_passes  # noqa: PLC0415  # for the device program alone

        return trace_packed_passes(self._plans, data, numbers)


def terms_of(colour: Any) -> tuple[Any, ...]:
    """The terms of an operation on values that may differ from row to row."""
    match colour:
        case ScaleStep(mean, factor):
            return np.asarray(mean), np.asarray(factor)
        case ColorMatrixStep(factors):
            return (np.asarray(factors).reshape(len(factors), 9),)
        case FillStep(values):
            return (np.asarray(values),)
        case _:
            return ()


def _by_source(work: Pass) -> list[PassAxis]:
    return sorted(work.axes, key=lambda axis: axis.source)


def _axis_plan(axis: PassAxis, extent: int) -> AxisPacking:
    length = int(axis.numbers.length[0])
    if not axis.reach:
        return AxisPacking(axis.source, length, 0, axis.moved)
    stretch = max(1.0, extent / int(axis.numbers.size[0])) if axis.antialias and axis.reach >= 1 else 1.0
    most = min(math.ceil(2 * axis.reach * stretch) + (stretch > 1), extent)
    return AxisPacking(axis.source, length, most, moved=True)


def _taps(planned: AxisPacking, axis: PassAxis) -> list[NDArray[Any]]:
    """Per pixel of the result the first pixel that makes it, and the weights."""
    rows = len(axis.numbers.begin)
    first, counts = (np.empty((rows, planned.length), np.int64) for _ in range(2))
    weights = np.empty((rows, planned.length, max(most_taps(axis.numbers), planned.most)), np.float32)
    taps_of_rows(axis.numbers.matrix(), first, counts, weights)
    needed = int(counts.max(initial=0))
    if needed > planned.most:
        raise ValueError(
            f"{needed} pixels make one, and the device program was planned for {planned.most}: "
            'use placement="host" for such a part or size'
        )
    return [first.astype(np.float32), weights[:, :, : planned.most].reshape(rows, -1)]


def _window(axis: PassAxis) -> list[NDArray[Any]]:
    columns = offsets(axis), directions(axis), *range_inside(axis)
    return [np.broadcast_to(column, len(columns[0]))[:, None].astype(np.float32) for column in columns]
