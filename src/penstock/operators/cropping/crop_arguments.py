"""Size and position arguments of cropping operators, under DALI's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypedDict

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph import SPATIAL, DataNode, Default, Doc
from penstock.image.describe.crop_window import POLICIES, POSITION_ARGUMENTS, SIZE_ARGUMENTS, CropWindow, PolicyName
from penstock.operators.tensors.cat import cat

Number = float | DataNode


class CropPositionArguments(TypedDict, total=False):
    """Size and position of a window, under DALI's names."""

    crop: Annotated[
        Number | Sequence[Number] | None,
        Doc(
            "Size in pixels, (height, width) or (depth, height, width). Fractions are truncated; images without a "
            "depth axis ignore the depth."
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
    """Return a window and the per-sample arguments for its size and position.

    Args:
        arguments: The arguments of the public operator.
        layout: Layout of the data.
        kind: Public name of the operator, for messages.
        frames: True if frames count as depth in sequences of images, as in DALI's `crop`.

    Raises:
        DefinitionError: The size is given twice or only in part, or a position is outside 0 to 1.
    """
    values: dict[str, Any] = dict(arguments)
    crop = values.pop("crop", None)
    # F and D share the names crop_d and crop_pos_z, so names repeat among the values of the table.
    sizes: dict[str, Any] = {name: values.pop(name, 0) for name in dict.fromkeys(SIZE_ARGUMENTS.values())}
    depth = "D" if "D" in layout else "F" if frames and "F" in layout else ""
    if crop is not None:
        named = [name for name, size in sizes.items() if isinstance(size, DataNode) or size]
        if named:
            raise DefinitionError("the size is given twice", given=f"crop and {', '.join(named)}")
        sizes |= _split(crop, depth, kind)
    # A constant 0 means "not given", as in DALI; a node always counts, since its values are known only at run time.
    sized = [
        axis
        for axis in depth + "HW"
        if isinstance(sizes[SIZE_ARGUMENTS[axis]], DataNode) or sizes[SIZE_ARGUMENTS[axis]] > 0
    ]
    if ("H" in sized) != ("W" in sized) and crop is None:
        raise DefinitionError("crop_h and crop_w must be given together", given=sizes)
    positions = {name: values.pop(name, 0.5) for name in dict.fromkeys(POSITION_ARGUMENTS.values())}
    for name, position in positions.items():
        if not isinstance(position, DataNode) and not 0 <= position <= 1:
            raise DefinitionError(f"{name} must be between 0 and 1", given=position)
    rounding, policy = values.pop("rounding", "round"), values.pop("out_of_bounds_policy", "error")
    fill = np.atleast_1d(np.asarray(values.pop("fill_values", 0.0), np.float64)).tolist()
    # Once one size is given, all spatial axes take part: an axis of size 0 keeps its extent at run time. Frames take
    # part only if crop_d asks for it.
    axes = "".join(axis for axis in layout if axis in sized or (sized and axis in SPATIAL))
    window = CropWindow(layout, axes, rounding == "truncate", POLICIES[policy], tuple(fill))
    used = {names[axis] for axis in axes for names in (SIZE_ARGUMENTS, POSITION_ARGUMENTS)}
    return window, {name: value for name, value in (sizes | positions).items() if name in used}


def _split(crop: Any, depth: str, kind: str) -> dict[str, Any]:
    """Split a crop of two or three numbers into `crop_d`, `crop_h` and `crop_w`."""
    if isinstance(crop, DataNode):
        (count,) = crop.spec.shape if len(crop.spec.shape) == 1 else (0,)
        numbers: Any = crop
        if depth and count is None:
            # Samples may give two or three numbers. Prepend a 0 ("no depth"), so that index -3 exists for both.
            zero: Any = np.zeros(1, crop.spec.dtype)
            numbers = cat(zero, crop)
    else:
        numbers = np.atleast_1d(np.asarray(crop)).tolist()
        count = len(numbers)
    if count not in (2, 3, None):
        raise DefinitionError(
            "crop needs one size per axis",
            given=crop,
            expected="(height, width) or (depth, height, width)",
        )
    result = {"crop_h": numbers[-2], "crop_w": numbers[-1]}
    return {"crop_d": numbers[-3], **result} if depth and count != 2 else result
