"""Crop windows: DALI's arguments for their size and place, and the steps that they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from penstock.core.spec import Spec, bounds_or_none
from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.image.describe.steps import CropStep, FillStep, ImageInfo
from penstock.numerics.casting import cast_saturating

Policy = Literal["error", "pad", "trim_to_shape"]

# Names that users may give: DALI's older releases called "pad" "constant".
PolicyName = Literal["error", "pad", "constant", "trim_to_shape"]
POLICIES: Mapping[PolicyName, Policy] = {
    "error": "error",
    "pad": "pad",
    "constant": "pad",
    "trim_to_shape": "trim_to_shape",
}


POSITION_ARGUMENTS = {"F": "crop_pos_z", "D": "crop_pos_z", "H": "crop_pos_y", "W": "crop_pos_x"}
SIZE_ARGUMENTS = {"F": "crop_d", "D": "crop_d", "H": "crop_h", "W": "crop_w"}


WINDOW_SCHEMA = {
    **{name: Argument(low=0.0) for name in SIZE_ARGUMENTS.values()},
    **{name: Argument(low=0.0, high=1.0) for name in POSITION_ARGUMENTS.values()},
}


@dataclass(frozen=True)
class CropWindow:
    """A window along axes of a layout. Its size and place are arguments of the operator that cuts it.

    Args:
        layout: of the values it is cut from.
        axes: along which it is cut, in the order of the layout; none where no size is given.
        truncate: whether a fractional first pixel is cut off rather than rounded.
        policy: what happens where it is larger than the image.
        fill: the value of pixels outside the image, one or one per channel.
    """

    layout: str
    axes: str
    truncate: bool
    policy: Policy
    fill: tuple[float, ...]

    def check_per_frame(self, kind: str) -> None:
        """Refuse arguments per frame where the window is cut along frames.

        Raises:
            DefinitionError: it is.
        """
        if "F" in self.axes:
            raise DefinitionError(
                f"fn.{kind}: arguments per frame cannot be combined with a crop along the frames",
                given=f"layout {self.layout!r}, crop_d or a crop of 3 numbers",
                expected="crop_h and crop_w, or a crop of 2 numbers",
            )

    def shape(self, images: Spec, arguments: Mapping[str, Any]) -> tuple[int | None, ...]:
        """The shape of what is cut out.

        Raises:
            DefinitionError: it is known to be larger than the image, and policy is "error".
        """
        result = list(images.shape)
        for axis in self.axes:
            at, wanted = self.layout.index(axis), arguments[SIZE_ARGUMENTS[axis]]
            given = result[at]
            if isinstance(wanted, Spec):
                result[at] = None
            elif not _whole(wanted):
                continue
            elif self.policy == "trim_to_shape":
                result[at] = None if given is None else min(given, int(wanted))
            else:
                if given is not None and self.policy == "error" and int(wanted) > given:
                    raise DefinitionError(
                        f"the crop is larger than the image along {axis}",
                        given=f"{int(wanted)} of {given} pixels",
                        fix='resize first, or out_of_bounds_policy="pad"',
                    )
                result[at] = int(wanted)
        return tuple(result)

    def bounds(self, images: Spec, arguments: Mapping[str, Any]) -> tuple[int, ...]:
        """The largest extents of what is cut out; empty where they are not known."""
        result = list(images.max_shape)
        for axis in self.axes:
            at, wanted = self.layout.index(axis), arguments[SIZE_ARGUMENTS[axis]]
            if isinstance(wanted, Spec):
                result[at] = None if self.policy == "pad" else result[at]
            elif _whole(wanted):
                trimmed = result[at] if self.policy == "trim_to_shape" else None
                result[at] = int(wanted) if trimmed is None else min(trimmed, int(wanted))
        return bounds_or_none(result)

    def steps(self, images: ImageInfo, arguments: Mapping[str, Any]) -> list[CropStep]:
        """The window as steps.

        Raises:
            ValueError: it does not lie inside, and policy is "error". On the device, where nothing can be raised, it
                is moved inside.
        """
        xp, found = images.xp, list[CropStep]()
        for axis in self.axes:
            at = self.layout.index(axis)
            extent, wanted = images.sizes[at], arguments[SIZE_ARGUMENTS[axis]].astype(np.int32)
            size = xp.where(wanted > 0, wanted, extent)
            if self.policy == "trim_to_shape":
                size = xp.minimum(size, extent)
            first = self._anchor(xp, arguments[POSITION_ARGUMENTS[axis]], extent - size)
            if self.policy == "error" and xp is np:
                outside = (first < 0) | (first + size > extent)
                if outside.any():
                    row = outside.argmax()
                    raise ValueError(
                        f"the crop of {size[row]} pixels along {axis} leaves the image, which has {extent[row]}"
                    )
            found.append(CropStep(at, first, size, may_exceed=self.policy == "pad"))
        return found

    def fill_step(self, dtype: np.dtype[Any]) -> list[FillStep]:
        """What gives the pixels outside of the image their value, in the dtype that they have now."""
        if self.policy != "pad":
            return []
        return [FillStep(fill_value_as(self.fill, dtype))]

    def _anchor(self, xp: Any, place: Any, room: Any) -> Any:
        """``place * room``, rounded: exactly, in integers, so that NumPy and XLA agree on the last pixel.

        `place` counts in multiples of 2**-30, and is multiplied in two halves of 15 bits.
        """
        parts = (place.astype(np.float32) * np.float32(1 << 30)).astype(np.uint32)
        size, low = xp.abs(room).astype(np.uint32), np.uint32((1 << 15) - 1)
        product = (parts >> np.uint32(15)) * size + ((parts & low) * size >> np.uint32(15))
        half = np.uint32(0 if self.truncate else 1 << 14)
        pixels = (product + half >> np.uint32(15)).astype(np.int32)
        return xp.where(room >= 0, pixels, -pixels)


def _whole(size: Any) -> bool:
    """Whether a size was given at all; DALI counts 0 as none."""
    return int(size) > 0


def fill_value_as(fill: Sequence[float], dtype: np.dtype[Any]) -> Any:
    """The value of what lies outside of an image, in its dtype: fractions of integers are cut off, as in DALI."""
    values = np.asarray([fill], np.float32)
    return cast_saturating(np, np.trunc(values) if dtype.kind in "iu" else values, dtype)
