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
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.operators.image import axis as axes_
from penstock.operators.image.axis import Numbers, Rows
from penstock.operators.image.steps import Apply, Arrange, Convert, Cut, Fill, Mirror, Mix, Resample, Scale, Step

_EXACT = frozenset(map(np.dtype, ("uint8", "int8", "uint16", "int16", "float16", "float32")))
"""What float32 holds without loss."""

Colour = Scale | Mix | Convert | Fill
"""An operation on values."""


@dataclass(slots=True)
class Axis:
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

    numbers: Numbers
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
        reads: the dtype that is read.
        dtype: the dtype that is written.
        colours: operations on values, in order: Scale, Mix, Convert and Fill.
        resampled: whether pixels are computed.
        void: the axes beyond whose ends pixels may lie, by their number in the memory that is read.
        moved: whether a window, a mirror or another order of the axes was asked for.
        mirrored: whether a mirror was.
        channel: the axis that terms of operations have an entry for, likewise; None where there is none.
        apply: the transform that is all that this pass does; the axes then have the extents of its result.
    """

    axes: list[Axis]
    reads: np.dtype[Any]
    dtype: np.dtype[Any]
    channel: int | None
    colours: list[Colour] = field(default_factory=list[Any])
    resampled: bool = False
    void: set[int] = field(default_factory=set[int])
    moved: bool = False
    mirrored: bool = False
    apply: Apply | None = None

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
    def given(self) -> NDArray[np.int64]:
        """The extents of each row's image as it is read, (rows, axes), where all axes stay in their order."""
        return np.stack([axis.numbers.end for axis in self.axes], axis=1).astype(np.int64)

    @property
    def computes(self) -> bool:
        """Whether values change; else they are moved as they are, whatever their dtype."""
        return self.resampled or self.reads != self.dtype or any(not isinstance(c, Fill) for c in self.colours)

    @property
    def closed(self) -> bool:
        """Whether values that float32 does not hold are converted: nothing can be computed after that."""
        return any(isinstance(c, Convert) for c in self.colours) and not exact(self.reads, self.dtype)

    @property
    def idle(self) -> bool:
        """Whether the result is what is read."""
        return not (self.moved or self.computes or self.colours or self.apply)

    @property
    def mixes(self) -> bool:
        """Whether each channel is made of all of them."""
        return any(isinstance(colour, Mix) for colour in self.colours)

    def of(self, rows: slice | NDArray[np.int64]) -> Pass:
        """The same for fewer rows."""
        if isinstance(rows, slice) and rows == slice(0, self.rows):
            return self
        axes = [Axis(axis.numbers.of(rows), axis.source, axis.letter) for axis in self.axes]
        colours: list[Any] = [_of(colour, rows) for colour in self.colours]
        apply = self.apply and replace(self.apply, terms=[_part(term, rows) for term in self.apply.terms])
        return replace(self, axes=axes, colours=colours, apply=apply)


def _of(colour: Colour, rows: slice | NDArray[np.int64]) -> Colour:
    match colour:
        case Scale(mean, factor, shift):
            return Scale(_part(mean, rows), _part(factor, rows), shift)
        case Mix(factors):
            return Mix(_part(factors, rows))
        case Fill(values):
            return Fill(_part(values, rows))
        case Convert():
            return colour


def _part(term: Any, rows: slice | NDArray[np.int64]) -> Any:
    """Some rows of a term; one that is the same for all rows stays."""
    return term if len(term) == 1 else term[rows]


class Visit:
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
        axes = [Axis(axes_.whole(sizes[:, at]), at, letter) for at, letter in enumerate(letters)]
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

    def settle(self, sizes: Sequence[int]) -> None:
        """Say that all rows have these extents now, where that is known beforehand."""
        for axis, size in zip(self._last.axes, sizes, strict=True):
            axis.numbers = axis.numbers._replace(length=np.array([size], np.int32))

    @property
    def _last(self) -> Pass:
        return self.passes[-1]

    def _flush(self) -> Pass:
        """Begin another pass, which reads what the present one writes."""
        last = self._last
        if last.idle:
            return last
        axes = [Axis(axes_.whole(a.numbers.length), at, a.letter) for at, a in enumerate(last.axes)]
        self.passes.append(Pass(axes, last.dtype, last.dtype, _channel("".join(axis.letter for axis in axes))))
        return self._last

    def _cut(self, step: Cut) -> None:
        now = self._along(step.axis)
        axis = now.axes[step.axis]
        now.moved = True
        if step.leaves:
            beside = axis.letter not in "HW" and now.computes
            filled = any(isinstance(colour, Fill) for colour in now.colours)
            hidden = axis.cut and axis.source not in now.void  # what a window left out does not come back
            if now.resampled or filled or beside or now.closed or hidden:
                now = self._flush()
                axis = now.axes[step.axis]
            now.void.add(axis.source)
            now.moved = True
        axis.moved = axis.cut = True
        axis.numbers = axes_.cut(self._xp, axis.numbers, step.first, step.length)

    def _mirror(self, step: Mirror) -> None:
        now = self._along(step.axis)
        axis = now.axes[step.axis]
        axis.numbers = axes_.mirror(axis.numbers, step.flags)
        axis.moved = now.moved = now.mirrored = True

    def _along(self, axis: int) -> Pass:
        """The pass in which a window along an axis, or mirroring, can go on."""
        now = self._last
        mixed = now.mixes and now.axes[axis].source == now.channel
        return self._flush() if mixed or now.apply else now

    def _resample(self, step: Resample) -> None:
        now = self._last
        if now.resampled or now.colours or now.void or now.mirrored or now.reads != now.dtype or now.apply:
            now = self._flush()
        parts = {at: part for at, part in step.parts.items() if now.axes[at].letter in "HW"}
        self._resample_along(now, parts, step)
        parts = {at: part for at, part in step.parts.items() if at not in parts}
        if parts:  # depth last, with floats in between
            self._resample_along(self._flush(), parts, step)

    def _resample_along(self, now: Pass, parts: dict[int, Any], step: Resample) -> None:
        for at, part in parts.items():
            axis = now.axes[at]
            axis.numbers = axes_.resample(
                axis.numbers, part.low, part.high, part.size, part.filters, step.antialias, by_steps=axis.letter != "W"
            )
            axis.reach, axis.antialias = step.reach, step.antialias
        now.resampled, now.dtype = True, np.dtype(np.float32)

    def _compute(self, step: Scale | Mix) -> None:
        if not exact(self._last.dtype):
            self._convert(Convert(np.dtype(np.float32)))
        now = self._values()
        now.colours.append(step)
        now.dtype = np.dtype(np.float32)

    def _convert(self, step: Convert) -> None:
        now = self._last
        if now.dtype == step.dtype:
            return
        now = self._values()
        if not exact(now.dtype, step.dtype) and (now.computes or now.void):
            now = self._flush()
        now.colours.append(step)
        now.dtype = step.dtype

    def _fill(self, step: Fill) -> None:
        if self._last.void:
            self._last.colours.append(step)

    def _arrange(self, step: Arrange) -> None:
        now = self._flush() if self._last.apply else self._last
        now.axes = [now.axes[at] for at in step.order]
        now.moved = True

    def _apply(self, step: Apply) -> None:
        now = self._flush()
        for axis, size in zip(now.axes, step.sizes, strict=True):
            axis.numbers = axis.numbers._replace(size=size, length=size)
        now.apply, now.dtype = step, step.dtype

    def _values(self) -> Pass:
        """The pass in which an operation on values can go on."""
        now = self._last
        beside = {axis.letter for axis in now.axes if axis.source in now.void} - {"H", "W"}
        halved = now.dtype == np.float16 and now.computes  # rounded to that only when it is written
        return self._flush() if beside or halved or now.closed or now.apply else now

    _ADDERS: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        Cut: _cut,
        Mirror: _mirror,
        Resample: _resample,
        Scale: _compute,
        Mix: _compute,
        Convert: _convert,
        Fill: _fill,
        Arrange: _arrange,
        Apply: _apply,
    }


def exact(*dtypes: np.dtype[Any]) -> bool:
    """Whether float32 holds all values of these dtypes."""
    return _EXACT.issuperset(dtypes)


def _channel(layout: str) -> int | None:
    """The axis whose entries have terms of their own: channels, else the last."""
    return layout.index("C") if "C" in layout else len(layout) - 1 if layout else None
