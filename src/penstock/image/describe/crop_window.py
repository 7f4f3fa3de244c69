"""Crop windows: DALI's arguments for their size and place, and the steps that they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import numpy as np

from penstock.core.spec import Spec, bounded
from penstock.errors import ArgumentTypeError, DefinitionError, did_you_mean, shown
from penstock.graph.identity.call_record import Default
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.layouts import SPATIAL
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.steps import Cut, Fill, Images
from penstock.numerics.casting import convert
from penstock.operators.tensors.cat import cat

Number = float | DataNode
Policy = Literal["error", "pad", "trim_to_shape"]

POLICIES: Mapping[str, Policy] = {
    "error": "error",
    "pad": "pad",
    "constant": "pad",
    "trim_to_shape": "trim_to_shape",
}


class PlaceArguments(TypedDict, total=False):
    """How DALI's cropping operators are told what to cut out.

    crop: the size, (height, width) or (depth, height, width), in pixels; fractions are cut off; images without a depth
    ignore it. crop_h, crop_w, crop_d: the same, one by one. crop_pos_x, crop_pos_y, crop_pos_z: where the window lies,
    0 for the left, top or front edge, 1 for the other, 0.5 for the centre. rounding: "round" or "truncate" the first
    pixel.
    """

    crop: Number | Sequence[Number] | None
    crop_h: Number
    crop_w: Number
    crop_d: Number
    crop_pos_x: Annotated[Number, Default(0.5)]
    crop_pos_y: Annotated[Number, Default(0.5)]
    crop_pos_z: Annotated[Number, Default(0.5)]
    rounding: Annotated[str, Default("round")]


class WindowArguments(PlaceArguments, total=False):
    """And what to do where the window is larger than the image.

    out_of_bounds_policy: "error", "pad" with fill_values, or "trim_to_shape". fill_values: one number, or one per
    channel, in the dtype of the result; for integers fractions are cut off.
    """

    out_of_bounds_policy: Annotated[str, Default("error")]
    fill_values: Annotated[float | Sequence[float], Default(0.0)]


_PLACES = {"F": "crop_pos_z", "D": "crop_pos_z", "H": "crop_pos_y", "W": "crop_pos_x"}
_SIZES = {"F": "crop_d", "D": "crop_d", "H": "crop_h", "W": "crop_w"}


WINDOW_SCHEMA = {
    **{name: Argument(low=0.0) for name in _SIZES.values()},
    **{name: Argument(low=0.0, high=1.0) for name in _PLACES.values()},
}


@dataclass(frozen=True)
class Window:
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
            at, wanted = self.layout.index(axis), arguments[_SIZES[axis]]
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
        result = list(images.most)
        for axis in self.axes:
            at, wanted = self.layout.index(axis), arguments[_SIZES[axis]]
            if isinstance(wanted, Spec):
                result[at] = None if self.policy == "pad" else result[at]
            elif _whole(wanted):
                trimmed = result[at] if self.policy == "trim_to_shape" else None
                result[at] = int(wanted) if trimmed is None else min(trimmed, int(wanted))
        return bounded(result)

    def steps(self, images: Images, arguments: Mapping[str, Any]) -> list[Cut]:
        """The window as steps.

        Raises:
            ValueError: it does not lie inside, and policy is "error". On the device, where nothing can be raised, it
                is moved inside.
        """
        xp, found = images.xp, list[Cut]()
        for axis in self.axes:
            at = self.layout.index(axis)
            extent, wanted = images.sizes[at], arguments[_SIZES[axis]].astype(np.int32)
            size = xp.where(wanted > 0, wanted, extent)
            if self.policy == "trim_to_shape":
                size = xp.minimum(size, extent)
            first = self._anchor(xp, arguments[_PLACES[axis]], extent - size)
            if self.policy == "error" and xp is np:
                outside = (first < 0) | (first + size > extent)
                if outside.any():
                    row = outside.argmax()
                    raise ValueError(
                        f"the crop of {size[row]} pixels along {axis} leaves the image, which has {extent[row]}"
                    )
            found.append(Cut(at, first, size, leaves=self.policy == "pad"))
        return found

    def fill_step(self, dtype: np.dtype[Any]) -> list[Fill]:
        """What gives the pixels outside of the image their value, in the dtype that they have now."""
        if self.policy != "pad":
            return []
        return [Fill(filled(self.fill, dtype))]

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


def window(
    arguments: PlaceArguments | WindowArguments, layout: str, kind: str, *, frames: bool = False
) -> tuple[Window, dict[str, Any]]:
    """The window that a user's arguments describe, and the operator arguments for its size and place.

    Args:
        arguments: the user's.
        layout: of the values it is cut from.
        kind: the public name of the operator.
        frames: whether frames count as depth in sequences of images, as in DALI's crops.

    Raises:
        DefinitionError: a size is given twice, or in part; a rounding or policy that does not exist.
    """
    given: dict[str, Any] = dict(arguments)
    crop = given.pop("crop", None)
    sizes: dict[str, Any] = {name: given.pop(name, 0) for name in dict.fromkeys(_SIZES.values())}
    depth = "D" if "D" in layout else "F" if frames and "F" in layout else ""
    if crop is not None:
        named = [name for name, size in sizes.items() if isinstance(size, DataNode) or size]
        if named:
            raise DefinitionError(f"fn.{kind}: the size is given twice", given=f"crop and {', '.join(named)}")
        sizes |= _split(crop, depth, kind)
    wanted = [axis for axis in depth + "HW" if isinstance(sizes[_SIZES[axis]], DataNode) or sizes[_SIZES[axis]] > 0]
    if ("H" in wanted) != ("W" in wanted) and crop is None:
        raise DefinitionError(f"fn.{kind}: crop_h and crop_w are given together", given=sizes)
    places = {name: given.pop(name, 0.5) for name in dict.fromkeys(_PLACES.values())}
    for name, place in places.items():
        if not isinstance(place, DataNode) and not 0 <= place <= 1:
            raise DefinitionError(f"fn.{kind}: {name} lies between 0 and 1", given=place)
    rounding, policy = given.pop("rounding", "round"), given.pop("out_of_bounds_policy", "error")
    one_of(rounding, ("round", "truncate"), f"fn.{kind}: rounding")
    one_of(policy, POLICIES, f"fn.{kind}: out_of_bounds_policy")
    fill = np.atleast_1d(np.asarray(given.pop("fill_values", 0.0), np.float64)).tolist()
    axes = "".join(axis for axis in layout if axis in wanted or (wanted and axis in SPATIAL))
    cut = Window(layout, axes, rounding == "truncate", POLICIES[policy], tuple(fill))
    used = {names[axis] for axis in axes for names in (_SIZES, _PLACES)}
    return cut, {name: value for name, value in (sizes | places).items() if name in used}


def _split(crop: Any, depth: str, kind: str) -> dict[str, Any]:
    """The sizes of a crop of two or three numbers, by the names of their arguments."""
    if isinstance(crop, DataNode):
        (count,) = crop.spec.shape if len(crop.spec.shape) == 1 else (0,)
        numbers: Any = crop
        if depth and count is None:  # with a 0 in front, which counts as none, the last three are there
            zero: Any = np.zeros(1, crop.spec.dtype)
            numbers = cat(zero, crop)
    else:
        numbers = np.atleast_1d(np.asarray(crop)).tolist()
        count = len(numbers)
    if count not in (2, 3, None):
        raise DefinitionError(
            f"fn.{kind}: crop has a size for each axis",
            given=crop,
            expected="(height, width) or (depth, height, width)",
        )
    result = {"crop_h": numbers[-2], "crop_w": numbers[-1]}
    return {"crop_d": numbers[-3], **result} if depth and count != 2 else result


def filled(fill: Sequence[float], dtype: np.dtype[Any]) -> Any:
    """The value of what lies outside of an image, in its dtype: fractions of integers are cut off, as in DALI."""
    values = np.asarray([fill], np.float32)
    return convert(np, np.trunc(values) if dtype.kind in "iu" else values, dtype)


def one_of(name: Any, known: Any, what: str) -> None:
    """Check that a choice is one of those on offer.

    Raises:
        ArgumentTypeError: it is not.
    """
    if name not in known:
        raise ArgumentTypeError(f"{what}: no such choice", given=shown(name), fix=did_you_mean(name, known))
