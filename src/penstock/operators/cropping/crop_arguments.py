"""Arguments of cropping operators: DALI's names for the size and position of a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypedDict

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_marks import Default, Doc
from penstock.graph.layouts import SPATIAL
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.crop_window import POLICIES, POSITION_ARGUMENTS, SIZE_ARGUMENTS, CropWindow, PolicyName
from penstock.operators.tensors.cat import cat

Number = float | DataNode


class CropPositionArguments(TypedDict, total=False):
    """Size and position of a window, under DALI's names."""

    crop: Annotated[
        Number | Sequence[Number] | None,
        Doc(
            "Size in pixels, (height, width) or (depth, height, width); fractions are cut off. Images without depth "
            "ignore it."
        ),
    ]
    crop_h: Annotated[Number, Doc("Height in pixels, instead of `crop`.")]
    crop_w: Annotated[Number, Doc("Width in pixels, instead of `crop`.")]
    crop_d: Annotated[Number, Doc("Depth in pixels, instead of `crop`.")]
    crop_pos_x: Annotated[Number, Default(0.5), Doc("Position of the window: 0 at the left edge, 1 at the right edge.")]
    crop_pos_y: Annotated[Number, Default(0.5), Doc("Position of the window: 0 at the top edge, 1 at the bottom edge.")]
    crop_pos_z: Annotated[Number, Default(0.5), Doc("Position of the window: 0 at the front, 1 at the back.")]
    rounding: Annotated[
        Literal["round", "truncate"], Default("round"), Doc('Rounding of the first pixel: "round" or "truncate".')
    ]


class CropWindowArguments(CropPositionArguments, total=False):
    """Size and position of a window that may exceed the image."""

    out_of_bounds_policy: Annotated[
        PolicyName,
        Default("error"),
        Doc('Policy for windows that exceed the image: "error", "pad" with `fill_values`, or "trim_to_shape".'),
    ]
    fill_values: Annotated[
        float | Sequence[float],
        Default(0.0),
        Doc("Padding value, one or one per channel, in the dtype of the result; integers drop fractions."),
    ]


def make_window(
    arguments: CropPositionArguments | CropWindowArguments, layout: str, kind: str, *, frames: bool = False
) -> tuple[CropWindow, dict[str, Any]]:
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
    sizes: dict[str, Any] = {name: given.pop(name, 0) for name in dict.fromkeys(SIZE_ARGUMENTS.values())}
    depth = "D" if "D" in layout else "F" if frames and "F" in layout else ""
    if crop is not None:
        named = [name for name, size in sizes.items() if isinstance(size, DataNode) or size]
        if named:
            raise DefinitionError(f"fn.{kind}: the size is given twice", given=f"crop and {', '.join(named)}")
        sizes |= _split(crop, depth, kind)
    wanted = [
        axis
        for axis in depth + "HW"
        if isinstance(sizes[SIZE_ARGUMENTS[axis]], DataNode) or sizes[SIZE_ARGUMENTS[axis]] > 0
    ]
    if ("H" in wanted) != ("W" in wanted) and crop is None:
        raise DefinitionError(f"fn.{kind}: crop_h and crop_w are given together", given=sizes)
    places = {name: given.pop(name, 0.5) for name in dict.fromkeys(POSITION_ARGUMENTS.values())}
    for name, place in places.items():
        if not isinstance(place, DataNode) and not 0 <= place <= 1:
            raise DefinitionError(f"fn.{kind}: {name} lies between 0 and 1", given=place)
    rounding, policy = given.pop("rounding", "round"), given.pop("out_of_bounds_policy", "error")
    fill = np.atleast_1d(np.asarray(given.pop("fill_values", 0.0), np.float64)).tolist()
    axes = "".join(axis for axis in layout if axis in wanted or (wanted and axis in SPATIAL))
    cut = CropWindow(layout, axes, rounding == "truncate", POLICIES[policy], tuple(fill))
    used = {names[axis] for axis in axes for names in (SIZE_ARGUMENTS, POSITION_ARGUMENTS)}
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
