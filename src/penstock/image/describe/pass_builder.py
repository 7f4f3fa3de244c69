"""Combination of the steps of several operators into passes: the fewest that give bit-for-bit the same result.

A pass reads and writes memory once: windows and mirroring, or one resampling; then operations on values, in float32;
then a transposition. A step starts another pass if it does not fit into the present one:

* a resampling, if pixels are already resampled, changed, mirrored or padded;
* the first of the windows that one fill belongs to, if an axis of theirs is already cut, or pixels are already
  resampled or filled;
* an operation on values that float32 does not represent exactly: such a cast is the last operation of its pass;
* a window or mirroring of channels that are already mixed;
* any step, if height, width or channels are other axes than before;
* a custom step, which needs a separate pass.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.errors import InternalError
from penstock.image.describe import axis_mapping as axes_
from penstock.image.describe.axis_mapping import Rows
from penstock.image.describe.pixel_pass import Pass, fits_float32
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
    check_fill_count,
)
from penstock.types import is_bfloat16


class PassBuilder:
    """Builder of the passes of a fusion group, from the steps of its operators.

    Args:
        sizes: Shapes of the images, integers (rows, axes).
        layout: One letter per axis, or "".
        dtype: Dtype of the images.
        xp: Array namespace of the numbers.
    """

    def __init__(self, sizes: NDArray[np.integer[Any]], layout: str, dtype: np.dtype[Any], xp: Any = np) -> None:
        self._xp = xp
        self.passes = [Pass.identity(list(sizes.T), layout or " " * sizes.shape[1], dtype)]

    @property
    def sizes(self) -> tuple[Rows, ...]:
        """Present extents per axis, integers with one entry per row."""
        return tuple(axis.numbers.length for axis in self._last.axes)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Present dtype."""
        return self._last.dtype

    def add(self, steps: Sequence[Step], layout: str = "") -> None:
        """Add the steps of the next operator.

        Args:
            steps: Steps of the operator.
            layout: Layout of its input; "" if the letters stay with their axes.

        Raises:
            InternalError: Padding and the `FillStep` that belongs to it are not in one pass.
            ValueError: The number of fill values is wrong.
        """
        present = "".join(axis.letter for axis in self._last.axes)
        if layout not in ("", present) and any(present.find(letter) != layout.find(letter) for letter in "HWC"):
            # A transposition that keeps the layout gives axes other letters, and with them other roles in the loops.
            self._flush()
            self.passes[-1] = Pass.identity(self.sizes, layout, self.dtype)
        for number, step in enumerate(steps):
            if isinstance(step, CropStep) and step.may_exceed and not self._last.lacks_fill:
                self._begin_padding(steps[number:])
            self._ADDERS[type(step)](self, step)

    def set_sizes(self, sizes: Sequence[int]) -> None:
        """Replace the present extents by constants, which are known from a spec."""
        for axis, size in zip(self._last.axes, sizes, strict=True):
            axis.numbers = axis.numbers._replace(length=np.array([size], np.int32))

    @property
    def _last(self) -> Pass:
        return self.passes[-1]

    def _flush(self) -> Pass:
        """Start another pass, unless the present one does nothing."""
        last = self._last
        if last.is_identity:
            return last
        if last.lacks_fill:
            # Only the pass that pads knows which pixels are outside: a later one would keep whatever they contain.
            raise InternalError(
                "another pass begins between a padded window and its fill",
                given=f"windows along axes {sorted(last.padded_axes)} without a FillStep",
                expected="a FillStep directly after them; operations on values come before the windows",
            )
        self.passes.append(Pass.identity(self.sizes, [axis.letter for axis in last.axes], last.dtype))
        return self._last

    def _begin_padding(self, steps: Sequence[Step]) -> None:
        """Start another pass if the present one cannot take all windows up to the next fill."""
        now = self._last
        windows = takewhile(lambda step: not isinstance(step, FillStep), steps)
        axes = [now.axes[step.axis] for step in windows if isinstance(step, CropStep) and step.may_exceed]
        # The loops that compute values fill padding along H and W only. Along other axes the pass must only copy.
        beside = now.computes and any(axis.letter not in "HW" for axis in axes)
        filled = any(isinstance(operation, FillStep) for operation in now.value_ops)
        # A window hides pixels: a larger one after it must show the fill value there, not the hidden pixels.
        hidden = any(axis.cut for axis in axes)
        fixed = now.fixes_channels and any(axis.source == now.channel for axis in axes)
        if now.resampled or filled or beside or hidden or fixed or now.casts_inexactly:
            self._flush()

    def _cut(self, step: CropStep) -> None:
        now = self._along(step.axis)
        axis = now.axes[step.axis]
        if step.may_exceed:
            now.padded_axes.add(axis.source)
        now.moved = axis.moved = axis.cut = True
        axis.numbers = axes_.crop(self._xp, axis.numbers, step.first, step.length)

    def _mirror(self, step: MirrorStep) -> None:
        now = self._along(step.axis)
        axis = now.axes[step.axis]
        axis.numbers = axis.numbers._replace(mirrored=axis.numbers.mirrored != step.flags)
        axis.moved = now.moved = now.mirrored = True

    def _along(self, axis: int) -> Pass:
        """Return the pass that a window or mirroring along an axis is added to."""
        now = self._last
        # A mixed channel needs all channels of the input, and numbers per channel belong to the channels as they were.
        fixed = now.fixes_channels and now.axes[axis].source == now.channel
        return self._flush() if fixed or now.apply else now

    def _resample(self, step: ResampleStep) -> None:
        # A pass resamples first: what earlier steps did to values, order or padding must be in memory by then.
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
        # Loops resample two axes per pass, and a further axis in the role of the depth. These passes come last and read
        # floats, so that values are rounded once.
        for at, part in step.parts.items():
            if at in parts:
                continue
            now = self._flush()
            for axis in now.axes:
                axis.letter = " " if axis.letter == "D" else axis.letter
            now.axes[at].letter = "D"
            self._resample_along(now, {at: part}, step)

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
        """Return the origins of the coordinates along height and width, if both are resampled and filters need them."""
        along = {now.axes[at].letter: (now.axes[at].numbers.length, part) for at, part in parts.items()}
        if along.keys() != {"H", "W"}:
            return {}
        terms = [[length, part.low, part.high, part.size, part.filters] for length, part in (along["H"], along["W"])]
        # Traced filters may be any, so their origins are always computed.
        known = all(isinstance(term, np.ndarray) for axis in terms for term in axis)
        if known and not all(axes_.depends_on_origin(axis[-1]).any() for axis in terms):
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
        # Executors compute values in float32, so a cast from or to wider dtypes must read the values from memory.
        if not fits_float32(now.dtype, step.dtype) and (now.computes or now.padded_axes):
            now = self._flush()
        now.value_ops.append(step)
        now.dtype = step.dtype

    def _fill(self, step: FillStep) -> None:
        now = self._last
        channels = next((axis.numbers.length for axis in now.axes if axis.source == now.channel), 1)
        check_fill_count(step.values.shape[1], channels)
        if now.padded_axes:
            now.value_ops.append(step)

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
        """Return the pass that an operation on values is added to."""
        now = self._last
        # Same restriction as in `_cut`: padding of channels and frames is written before values are computed.
        beside = {axis.letter for axis in now.axes if axis.source in now.padded_axes} - {"H", "W"}
        # Values are rounded to float16 and bfloat16 only when a pass writes them.
        halved = (now.dtype == np.float16 or is_bfloat16(now.dtype)) and now.computes
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
