"""Size and position arguments of cropping operators, under DALI's names."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from typing_extensions import TypedDict

from penstock.errors import DefinitionError
from penstock.graph import SPATIAL, Argument, DataNode, Default, Range
from penstock.image.describe.crop_window import POLICIES, POSITION_ARGUMENTS, SIZE_ARGUMENTS, CropWindow, PolicyName
from penstock.operators.number_arguments import as_floats, check_number_count, number_count
from penstock.operators.tensors.cat import cat

Number = float | DataNode
Extent = Annotated[Number, Argument(low=0.0)]
# A constant is checked even if its axis is not cropped, therefore the Range.
Position = Annotated[Number, Range(0, 1), Argument(low=0.0, high=1.0)]


class CropPositionArguments(TypedDict, total=False):
    """Size and position of a window, under DALI's names.

    Args:
        crop: Size in pixels, (height, width) or (depth, height, width). Fractions are truncated; images without a depth
            axis ignore the depth.
        crop_h: Height in pixels, instead of `crop`.
        crop_w: Width in pixels, instead of `crop`.
        crop_d: Depth in pixels, instead of `crop`.
        crop_pos_x: Position of the window: 0 at the left, 1 at the right edge.
        crop_pos_y: Position of the window: 0 at the top, 1 at the bottom edge.
        crop_pos_z: Position of the window: 0 at the front, 1 at the back.
        rounding: Rounding of the first pixel: "round" or "truncate".
    """

    crop: Number | Sequence[Number] | None
    crop_h: Extent
    crop_w: Extent
    crop_d: Extent
    crop_pos_x: Annotated[Position, Default(0.5)]
    crop_pos_y: Annotated[Position, Default(0.5)]
    crop_pos_z: Annotated[Position, Default(0.5)]
    rounding: Annotated[Literal["round", "truncate"], Default("round")]


class CropWindowArguments(CropPositionArguments, total=False):
    """Size and position of a window that may exceed the image.

    Args:
        out_of_bounds_policy: Policy for windows that exceed the image: "error", "pad" with `fill_values`, or
            "trim_to_shape".
        fill_values: Padding value, one or one per channel, in the dtype of the result; integers drop fractions.
    """

    out_of_bounds_policy: Annotated[PolicyName, Default("error")]
    fill_values: Annotated[float | Sequence[float], Default(0.0)]


def make_window(
    arguments: Mapping[str, Any], layout: str, *, frames: bool = False
) -> tuple[CropWindow, dict[str, Any]]:
    """Return a window and the per-sample arguments for its size and position.

    Args:
        arguments: Arguments of the public operator, those of `CropWindowArguments` among them.
        layout: Layout of the data.
        frames: True if frames count as depth in sequences of images, as in DALI's `crop`.

    Raises:
        DefinitionError: The size is given twice or only in part.
    """
    crop = arguments.get("crop")
    # F and D share the names crop_d and crop_pos_z, so names repeat among the values of the table.
    sizes: dict[str, Any] = {name: arguments.get(name, 0) for name in SIZE_ARGUMENTS.values()}
    depth = "D" if "D" in layout else "F" if frames and "F" in layout else ""
    given = [name for name in sizes if name in arguments]
    if crop is not None and given:
        raise DefinitionError(f"crop and {' and '.join(given)} cannot be combined", fix="leave out one")
    if given and not {"crop_h", "crop_w"} <= set(given):
        raise DefinitionError("crop_h and crop_w must be given together", given=", ".join(given))
    if crop is not None:
        sizes |= _split(crop, depth)
    # A constant 0 means "not given", as in DALI; a node always counts, since its values are known only at run time.
    present = [name for name, size in sizes.items() if isinstance(size, DataNode) or size > 0]
    sized = [axis for axis in depth + "HW" if SIZE_ARGUMENTS[axis] in present]
    # Once one size is given, all spatial axes take part: an axis of size 0 keeps its extent at run time. Frames take
    # part only if crop_d asks for it.
    axes = "".join(axis for axis in layout if axis in sized or (sized and axis in SPATIAL))
    policy = POLICIES[arguments.get("out_of_bounds_policy", "error")]
    fill = as_floats(arguments.get("fill_values", 0.0))
    window = CropWindow(layout, axes, arguments.get("rounding") == "truncate", policy, fill)
    # Sizes and positions of axes that the data do not have; nothing else looks at them.
    used = {table[axis] for axis in axes for table in (SIZE_ARGUMENTS, POSITION_ARGUMENTS)}
    for name in {*given, *POSITION_ARGUMENTS.values()} & set(arguments) - used:
        check_number_count(name, arguments[name], 1)
    place = {SIZE_ARGUMENTS[axis]: sizes[SIZE_ARGUMENTS[axis]] for axis in axes}
    return window, place | {POSITION_ARGUMENTS[axis]: arguments.get(POSITION_ARGUMENTS[axis], 0.5) for axis in axes}


def _split(crop: Any, depth: str) -> dict[str, Any]:
    """Split a crop of two or three numbers into `crop_d`, `crop_h` and `crop_w`."""
    scalars = isinstance(crop, DataNode) and len(crop.spec.shape) != 1
    count = 0 if scalars else number_count(crop)
    if count not in (2, 3, None):
        raise DefinitionError(
            "crop needs one size per axis", given=crop, expected="(height, width) or (depth, height, width)"
        )
    numbers: Any = crop
    if depth and count is None:
        # Samples may give two or three numbers. Prepend a 0 ("no depth"), so that index -3 exists for both.
        zero: Any = np.zeros(1, crop.spec.dtype)
        numbers = cat(zero, crop)
    elif not isinstance(crop, DataNode):
        numbers = np.ravel(crop).tolist()
    result = {"crop_h": numbers[-2], "crop_w": numbers[-1]}
    return {"crop_d": numbers[-3], **result} if depth and count != 2 else result
