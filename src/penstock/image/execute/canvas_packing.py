"""Packing of descriptions: the host describes a fusion group, and the device program executes it.

The passes of a group are the same for all rows; only their numbers differ. So each row is described by a float32 vector
of fixed layout: pass by pass, per axis the taps of the filter or the window, then the terms of the operations on
values. Integers up to 2**24 are exact in float32.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.errors import InternalError
from penstock.graph.ir.fusion_contract import Passes
from penstock.image.describe.axis_mapping import most_taps
from penstock.image.describe.pixel_pass import Pass, PassAxis, directions, fits_float32, offsets, range_inside
from penstock.image.kernels.filter_taps import taps_of_rows


@dataclass(frozen=True, slots=True)
class AxisPacking:
    """Layout of the numbers of one axis.

    Args:
        source: Number of the axis in the input.
        length: Largest number of pixels of the result.
        most: Largest number of taps if the axis is resampled. 0 if pixels are copied: then the vector has the first
            pixel, the direction, and the range of the result that is inside of the image.
        moved: False if the axis does not change and has no numbers.
    """

    source: int
    length: int
    most: int
    moved: bool

    @property
    def size(self) -> int:
        """Number of numbers per row."""
        return self.length * (1 + self.most) if self.most else 4 if self.moved else 0


@dataclass(frozen=True, slots=True)
class PassPacking:
    """Layout of the numbers of one pass.

    Args:
        outline: Pass, described for one row whose numbers are not used.
        axes: Layouts of the axes, in the order of the input.
    """

    outline: Pass
    axes: tuple[AxisPacking, ...]

    @property
    def size(self) -> int:
        """Number of numbers per row."""
        terms = (math.prod(term.shape[1:]) for step in self.outline.value_ops for term in step.terms)
        return sum(axis.size for axis in self.axes) + sum(terms) + sum(self.applied)

    @property
    def applied(self) -> tuple[int, ...]:
        """Widths of the numbers of a custom pass: input shape, result shape, and terms."""
        apply, axes = self.outline.apply, len(self.axes)
        return (axes, axes, *(term.shape[1] for term in apply.terms)) if apply else ()


class ImageCanvasProgram:
    """Fusion group that is described on the host and executed in the device program.

    Args:
        outline: Passes, described for one row with the largest image.
        limits: Shape of the largest image.

    Raises:
        ValueError: Float32 cannot represent the values.
    """

    def __init__(self, outline: Sequence[Pass], limits: Sequence[int]) -> None:
        self._plans: list[PassPacking] = []
        for pass_ in outline:
            # The device program keeps values between passes in float32 or a narrower dtype.
            if not fits_float32(pass_.input_dtype, pass_.dtype):
                inexact = pass_.dtype if fits_float32(pass_.input_dtype) else pass_.input_dtype
                raise ValueError(f"{inexact} values are not exact in float32")
            axes = [_axis_plan(axis, limits[axis.source]) for axis in _by_source(pass_)]
            self._plans.append(PassPacking(pass_, tuple(axes)))
            limits = [axes[axis.source].length for axis in pass_.axes]
        self.size = sum(plan.size for plan in self._plans)

    def pack(self, passes: Passes) -> NDArray[np.float32]:
        """Return the numbers of some rows, float32 (rows, size)."""
        if len(passes.passes) != len(self._plans):
            raise InternalError("the passes of a fusion group differ from its plan")
        parts: list[NDArray[Any]] = []
        for plan, pass_ in zip(self._plans, passes.passes, strict=True):
            for planned, axis in zip(plan.axes, _by_source(pass_), strict=True):
                parts += _taps(planned, axis) if planned.most else _window(axis) if planned.moved else []
            if pass_.apply:
                numbers = (pass_.input_shapes, pass_.shapes, *pass_.apply.terms)
                parts += [np.broadcast_to(t, (pass_.rows, w)) for t, w in zip(numbers, plan.applied, strict=True)]
            for outline, step in zip(plan.outline.value_ops, pass_.value_ops, strict=True):
                parts += [
                    np.broadcast_to(term, (pass_.rows, *planned.shape[1:])).reshape(pass_.rows, -1)
                    for planned, term in zip(outline.terms, step.terms, strict=True)
                ]
        rows = len(passes.shapes)
        packed = np.empty((rows, self.size), np.float32)
        return np.concatenate(parts, axis=1, out=packed, casting="same_kind") if parts else packed

    def trace(self, data: Any, numbers: Any) -> Any:
        """Compute a batch while JAX traces the device program."""
        from penstock.image.execute.xla_executor import trace_packed_passes  # noqa: PLC0415  # needs JAX

        return trace_packed_passes(self._plans, data, numbers)


def _by_source(pass_: Pass) -> list[PassAxis]:
    return sorted(pass_.axes, key=lambda axis: axis.source)


def _axis_plan(axis: PassAxis, extent: int) -> AxisPacking:
    length = int(axis.numbers.length[0])
    # `reach` says if an operator resamples, whatever the numbers of a row are: the layout must not depend on them.
    if not axis.reach:
        return AxisPacking(axis.source, length, 0, axis.moved)
    # An upper bound for all rows: a typical result from the largest image. `_taps` refuses rows that exceed it.
    # A result of a rounded size keeps the scale of the fractional one: its ROI is then wider than the image.
    numbers = axis.numbers
    widest = max(extent, abs(float(numbers.high[0]) - float(numbers.low[0])))
    stretch = max(1.0, widest / int(numbers.size[0])) if axis.antialias and axis.reach >= 1 else 1.0
    most = min(math.ceil(2 * axis.reach * stretch) + (stretch > 1), extent)
    return AxisPacking(axis.source, length, most, moved=True)


def _taps(planned: AxisPacking, axis: PassAxis) -> list[NDArray[Any]]:
    """Return the first tap of each pixel of the result, and the weights of all taps."""
    rows = len(axis.numbers.begin)
    first, counts = (np.empty((rows, planned.length), np.int64) for _ in range(2))
    weights = np.empty((rows, planned.length, max(most_taps(axis.numbers), planned.most)), np.float32)
    taps_of_rows(axis.numbers.matrix(), first, counts, weights)
    needed = int(counts.max(initial=0))
    if needed > planned.most:
        raise ValueError(
            f"a resampled pixel needs {needed} taps, but the device program was planned for {planned.most}: "
            'use placement="host" for such an ROI or size'
        )
    return [first.astype(np.float32), weights[:, :, : planned.most].reshape(rows, -1)]


def _window(axis: PassAxis) -> list[NDArray[Any]]:
    columns = offsets(axis), directions(axis), *range_inside(axis)
    return [np.broadcast_to(column, len(columns[0]))[:, None].astype(np.float32) for column in columns]
