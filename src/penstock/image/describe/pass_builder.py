"""From the steps of a chain of operators to passes over pixels: as few as give the same result, bit by bit.

A pass reads memory once and writes memory once: windows and mirroring, or one resampling; then operations on values, in
float32; then the axes in their order. A step that does not fit into the present pass begins another:

* a resampling, when pixels are computed, changed, mirrored or filled in already;
* a window that leaves an image that is cut along the same axis, resampled, or filled in beyond its edge, already;
* an operation on values that float32 does not hold: such a conversion is the last of its pass;
* a window of channels that are mixed already, or channels exchanged;
* a transform, which is a pass of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.image.describe import axis_mapping as axes_
from penstock.image.describe.axis_mapping import Rows
from penstock.image.describe.pixel_pass import Pass, PassAxis, fits_float32
from penstock.image.describe.steps import (
    CastStep,
    ColorMatrixStep,
    CropStep,
    CustomStep,
    FillStep,
    MirrorStep,
    ResampleAxis,
    ResampleStep,
    ScaleStep,
    Step,
    TransposeStep,
)
from penstock.types import INTERP_GAUSSIAN, INTERP_NN


class PassBuilder:
    """The passes that a chain of operators needs for some rows, while their steps are added.

    Args:
        sizes: the extents of the images, integers (rows, axes).
        layout: a letter per axis, or "".
        dtype: of the images.
        xp: the array namespace in which numbers are computed.
    """

    def __init__(self, sizes: NDArray[np.integer[Any]], layout: str, dtype: np.dtype[Any], xp: Any = np) -> None:
        self._xp = xp
        letters = layout or " " * sizes.shape[1]
        axes = [PassAxis(axes_.identity(sizes[:, at]), at, letter) for at, letter in enumerate(letters)]
        self.passes = [Pass(axes, dtype, dtype, _channel(letters))]

    @property
    def sizes(self) -> tuple[Rows, ...]:
        """The present extents, integers, one entry per row for each axis."""
        return tuple(axis.numbers.length for axis in self._last.axes)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The present dtype."""
        return self._last.dtype

    def add(self, steps: Sequence[Step]) -> None:
        """Go on with the steps of the next operator."""
        for step in steps:
            self._ADDERS[type(step)](self, step)

    def set_sizes(self, sizes: Sequence[int]) -> None:
        """Say that all rows have these extents now, where that is known beforehand."""
        for axis, size in zip(self._last.axes, sizes, strict=True):
            axis.numbers = axis.numbers._replace(length=np.array([size], np.int32))

    @property
    def _last(self) -> Pass:
        return self.passes[-1]

    def _flush(self) -> Pass:
        """Begin another pass, which reads what the present one writes."""
        last = self._last
        if last.is_identity:
            return last
        axes = [PassAxis(axes_.identity(a.numbers.length), at, a.letter) for at, a in enumerate(last.axes)]
        self.passes.append(Pass(axes, last.dtype, last.dtype, _channel("".join(axis.letter for axis in axes))))
        return self._last

    def _cut(self, step: CropStep) -> None:
        now = self._along(step.axis)
        axis = now.axes[step.axis]
        now.moved = True
        if step.may_exceed:
            beside = axis.letter not in "HW" and now.computes
            filled = any(isinstance(colour, FillStep) for colour in now.value_ops)
            hidden = axis.cut and axis.source not in now.padded_axes  # what a window left out does not come back
            if now.resampled or filled or beside or now.casts_inexactly or hidden:
                now = self._flush()
                axis = now.axes[step.axis]
            now.padded_axes.add(axis.source)
            now.moved = True
        axis.moved = axis.cut = True
        axis.numbers = axes_.crop(self._xp, axis.numbers, step.first, step.length)

    def _mirror(self, step: MirrorStep) -> None:
        now = self._along(step.axis)
        axis = now.axes[step.axis]
        axis.numbers = axes_.mirror(axis.numbers, step.flags)
        axis.moved = now.moved = now.mirrored = True

    def _along(self, axis: int) -> Pass:
        """The pass in which a window along an axis, or mirroring, can go on."""
        now = self._last
        mixed = now.mixes and now.axes[axis].source == now.channel
        return self._flush() if mixed or now.apply else now

    def _resample(self, step: ResampleStep) -> None:
        now = self._last
        if (
            now.resampled
            or now.value_ops
            or now.padded_axes
            or now.mirrored
            or now.input_dtype != now.dtype
            or now.apply
        ):
            now = self._flush()
        parts = {at: part for at, part in step.parts.items() if now.axes[at].letter in "HW"}
        self._resample_along(now, parts, step)
        parts = {at: part for at, part in step.parts.items() if at not in parts}
        if parts:  # depth last, with floats in between
            self._resample_along(self._flush(), parts, step)

    def _resample_along(self, now: Pass, parts: dict[int, ResampleAxis], step: ResampleStep) -> None:
        origins = self._origins(now, parts, step.antialias)
        for at, part in parts.items():
            axis = now.axes[at]
            axis.numbers = axes_.resample(
                axis.numbers,
                part.low,
                part.high,
                part.size,
                part.filters,
                step.antialias,
                by_steps=axis.letter != "W",
                origin=origins.get(axis.letter, 0),
            )
            axis.reach, axis.antialias = step.reach, step.antialias
        now.resampled, now.dtype = True, np.dtype(np.float32)

    def _origins(self, now: Pass, parts: dict[int, ResampleAxis], antialias: bool) -> dict[str, Rows]:
        """Where pixels begin to be counted along the height and the width, if both are resampled and it matters."""
        along = {now.axes[at].letter: (now.axes[at].numbers.length, part) for at, part in parts.items()}
        if along.keys() != {"H", "W"}:
            return {}
        terms = [[length, part.low, part.high, part.size, part.filters] for length, part in (along["H"], along["W"])]
        known = all(isinstance(term, np.ndarray) for axis in terms for term in axis)
        if known and not all(np.isin(axis[-1], (INTERP_NN, INTERP_GAUSSIAN)).any() for axis in terms):
            return {}
        rows, columns = terms
        return dict(zip("HW", axes_.origins(np if known else self._xp, rows, columns, antialias), strict=True))

    def _compute(self, step: ScaleStep | ColorMatrixStep) -> None:
        if not fits_float32(self._last.dtype):
            self._convert(CastStep(np.dtype(np.float32)))
        now = self._values()
        now.value_ops.append(step)
        now.dtype = np.dtype(np.float32)

    def _convert(self, step: CastStep) -> None:
        now = self._last
        if now.dtype == step.dtype:
            return
        now = self._values()
        if not fits_float32(now.dtype, step.dtype) and (now.computes or now.padded_axes):
            now = self._flush()
        now.value_ops.append(step)
        now.dtype = step.dtype

    def _fill(self, step: FillStep) -> None:
        if self._last.padded_axes:
            self._last.value_ops.append(step)

    def _arrange(self, step: TransposeStep) -> None:
        now = self._flush() if self._last.apply else self._last
        now.axes = [now.axes[at] for at in step.order]
        now.moved = True

    def _apply(self, step: CustomStep) -> None:
        now = self._flush()
        for axis, size in zip(now.axes, step.sizes, strict=True):
            axis.numbers = axis.numbers._replace(size=size, length=size)
        now.apply, now.dtype = step, step.dtype

    def _values(self) -> Pass:
        """The pass in which an operation on values can go on."""
        now = self._last
        beside = {axis.letter for axis in now.axes if axis.source in now.padded_axes} - {"H", "W"}
        halved = now.dtype == np.float16 and now.computes  # rounded to that only when it is written
        return self._flush() if beside or halved or now.casts_inexactly or now.apply else now

    _ADDERS: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        CropStep: _cut,
        MirrorStep: _mirror,
        ResampleStep: _resample,
        ScaleStep: _compute,
        ColorMatrixStep: _compute,
        CastStep: _convert,
        FillStep: _fill,
        TransposeStep: _arrange,
        CustomStep: _apply,
    }


def _channel(layout: str) -> int | None:
    """The axis whose entries have terms of their own: channels, else the last."""
    return layout.index("C") if "C" in layout else len(layout) - 1 if layout else None
