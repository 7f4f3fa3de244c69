"""Crop windows: DALI's arguments for their size and position, and the steps that describe them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from penstock.core import Spec, bounds_or_none
from penstock.errors import DefinitionError
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


# DALI calls frames and depth both "z" and "d".
POSITION_ARGUMENTS = {"F": "crop_pos_z", "D": "crop_pos_z", "H": "crop_pos_y", "W": "crop_pos_x"}
SIZE_ARGUMENTS = {"F": "crop_d", "D": "crop_d", "H": "crop_h", "W": "crop_w"}


@dataclass(frozen=True)
class CropWindow:
    """Window along some axes of a layout. Its size and position are arguments of the operator that crops.

    Args:
        layout: Layout of the images.
        axes: Axes that are cropped, in the order of the layout; empty if no size was passed.
        truncate: Truncate a fractional position; otherwise it is rounded.
        policy: Behavior if the window leaves the image.
        fill: Value of pixels outside of the image: one, or one per channel.
    """

    layout: str
    axes: str
    truncate: bool
    policy: Policy
    fill: tuple[float, ...]

    def check_per_frame(self) -> None:
        """Check that arguments may have one entry per frame.

        Raises:
            DefinitionError: The window is cut along the frames.
        """
        if "F" in self.axes:
            raise DefinitionError(
                "arguments per frame cannot be combined with a crop along the frames",
                given=f"layout {self.layout!r}, crop_d or a crop of 3 numbers",
                expected="crop_h and crop_w, or a crop of 2 numbers",
            )

    def shape(self, images: Spec, arguments: Mapping[str, Any]) -> tuple[int | None, ...]:
        """Return the shape of the window.

        Raises:
            DefinitionError: The window is known to be larger than the image, and policy is "error".
        """
        result = list(images.shape)
        for axis in self.axes:
            at, wanted = self.layout.index(axis), arguments[SIZE_ARGUMENTS[axis]]
            extent = result[at]
            if isinstance(wanted, Spec):
                result[at] = None
            elif not _whole(wanted):
                continue  # the axis keeps its extent
            elif self.policy == "trim_to_shape":
                result[at] = None if extent is None else min(extent, int(wanted))
            else:
                if extent is not None and self.policy == "error" and int(wanted) > extent:
                    raise DefinitionError(
                        f"the crop is larger than the image along {axis}",
                        given=f"{int(wanted)} of {extent} pixels",
                        fix='resize first, or out_of_bounds_policy="pad"',
                    )
                result[at] = int(wanted)
        return tuple(result)

    def bounds(self, images: Spec, arguments: Mapping[str, Any]) -> tuple[int, ...]:
        """Return upper bounds of the extents of the window; empty if they are unknown."""
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
        """Describe the window as steps.

        Raises:
            ValueError: The window leaves the image, and policy is "error". The device program, which cannot raise
                errors, moves the window inside instead.
        """
        xp, steps = images.xp, list[CropStep]()
        for axis in self.axes:
            at = self.layout.index(axis)
            extent, wanted = images.sizes[at], arguments[SIZE_ARGUMENTS[axis]].astype(np.int32)
            # Constants stay NumPy arrays while JAX traces: the next pass of the operator needs the extents.
            own: Any = np if isinstance(wanted, np.ndarray) and isinstance(extent, np.ndarray) else xp
            size = own.where(wanted > 0, wanted, extent)
            if self.policy == "trim_to_shape":
                size = own.minimum(size, extent)
            first = self._anchor(xp, arguments[POSITION_ARGUMENTS[axis]], extent - size)
            if self.policy == "error" and xp is np:
                outside = (first < 0) | (first + size > extent)
                if outside.any():
                    row = outside.argmax()
                    raise ValueError(
                        f"the crop of {size[row]} pixels along {axis} leaves the image, which has {extent[row]}"
                    )
            steps.append(CropStep(at, first, size, may_exceed=self.policy == "pad"))
        return steps

    def fill_step(self, dtype: np.dtype[Any]) -> list[FillStep]:
        """Return the step that fills the pixels outside of the image, whose present dtype is `dtype`."""
        if self.policy != "pad":
            return []
        return [FillStep(fill_value_as(self.fill, dtype))]

    def _anchor(self, xp: Any, place: Any, room: Any) -> Any:
        """Return ``place * room``, rounded or truncated to pixels."""
        # In integers, so that NumPy and XLA agree on the last pixel: `place` as a multiple of 2**-30 times the extent,
        # both split into a high part and 15 low bits, whose products fit into the 32 bits of JAX.
        bits, mask = np.uint32(15), np.uint32((1 << 15) - 1)
        parts = (place.astype(np.float32) * np.float32(1 << 30)).astype(np.uint32)
        size, half = xp.abs(room).astype(np.uint32), np.uint32(0 if self.truncate else 1 << 14)
        high, low, size_high, size_low = parts >> bits, parts & mask, size >> bits, size & mask
        middle = low * size_high + high * size_low + (low * size_low >> bits) + half
        pixels = (high * size_high + (middle >> bits)).astype(np.int32)
        return xp.where(room >= 0, pixels, -pixels)


def _whole(size: Any) -> bool:
    """Return True if a size was passed; 0 means none, as in DALI."""
    return int(size) > 0


def fill_value_as(fill: Sequence[float], dtype: np.dtype[Any]) -> Any:
    """Return fill values in the dtype of an image; integers are truncated, as in DALI."""
    values = np.asarray([fill], np.float32)
    return cast_saturating(np, np.trunc(values) if dtype.kind in "iu" else values, dtype)
