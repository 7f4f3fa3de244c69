"""The arguments that give the size of a resized image, and the part of it that is resized: DALI's ways."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict, cast

import numpy as np

from penstock.errors import ArgumentTypeError, DefinitionError, did_you_mean, shown
from penstock.graph.call import Default
from penstock.graph.trace import DataNode
from penstock.operators.axes import SPATIAL
from penstock.operators.geometry.filters import FilterArguments, interpolation
from penstock.operators.geometry.sizing import MODES, ONE_BY_ONE, Number, Numbers, Sizing


class SizeArguments(TypedDict, total=False):
    """How large the result is, and of which part of the image.

    size: (height, width), or (depth, height, width), or one number for all. resize_x, resize_y, resize_z: width,
    height, depth, one by one. resize_shorter, resize_longer: the shorter or longer side; the others keep the aspect
    ratio. Exactly one of these ways is used. An extent that is 0 or not given follows from the others; a negative one
    mirrors the image. mode: "default": missing extents keep the aspect ratio; "stretch": they stay; "not_larger",
    "not_smaller": the image keeps its aspect ratio and just fits into, or covers, the size. max_size: a limit for all
    extents, or one per extent; "not_larger" and "not_smaller" (and resize_shorter, resize_longer) keep the aspect
    ratio under it. roi_start, roi_end: the part of the image that is resized, in pixels, or in fractions of the image
    with roi_relative. subpixel_scale: whether the part is widened or narrowed where an extent is rounded, so that the
    scale stays exact.
    """

    size: Numbers
    resize_x: Number
    resize_y: Number
    resize_z: Number
    resize_shorter: Number
    resize_longer: Number
    mode: Annotated[str, Default("default")]
    max_size: float | Sequence[float]
    roi_start: Sequence[float] | DataNode
    roi_end: Sequence[float] | DataNode
    roi_relative: Annotated[bool, Default(False)]
    subpixel_scale: Annotated[bool, Default(True)]


def sizing(sizes: SizeArguments, filters: FilterArguments, layout: str, kind: str) -> tuple[Sizing, dict[str, Any]]:
    """The sizing that a user's arguments describe, and the operator arguments for sizes, part and filters.

    Raises:
        DefinitionError: no size is given, or in two ways; too many or too few numbers; half a part.
        ArgumentTypeError: a mode or interpolation that does not exist.
    """
    given: dict[str, Any] = {name: value for name, value in sizes.items() if value is not None}
    axes = [axis for axis in SPATIAL if axis in layout]
    for name in ("size", "max_size", "roi_start", "roi_end"):
        value = given.get(name)
        if isinstance(value, list | tuple) and any(isinstance(part, DataNode) for part in cast(list[Any], value)):
            raise DefinitionError(f"fn.{kind}: {name} is one node, or numbers", given="a list with a node in it")
    if isinstance(given.get("max_size"), DataNode):
        raise DefinitionError(f"fn.{kind}: max_size is the same for all samples", given="a node")
    one_by_one = [name for name in ONE_BY_ONE.values() if _given(given.get(name, 0))]
    ways = [[name] for name in ("size", "resize_shorter", "resize_longer") if _given(given.get(name, 0))]
    ways += [one_by_one] if one_by_one else []
    zeros = [name for name in ("size", "resize_shorter", "resize_longer", *ONE_BY_ONE.values()) if name in given]
    ways = ways or [[name] for name in zeros[:1]]  # 0 leaves the image as it is, where nothing else is said
    if len(ways) != 1:
        raise DefinitionError(
            f"fn.{kind}: the size is given " + ("twice" if ways else "nowhere"),
            given=", ".join(name for way in ways for name in way) or None,
            expected="one of size, resize_x/resize_y/resize_z, resize_shorter, resize_longer",
        )
    mode = given.get("mode", "default")
    if mode not in MODES:
        raise ArgumentTypeError(f"fn.{kind}: no such mode", given=shown(mode), fix=did_you_mean(mode, MODES))
    arguments: dict[str, Any] = {name: given[name] for name in ways[0]}
    if ways[0][0] in ("resize_shorter", "resize_longer"):
        if mode != "default":
            raise DefinitionError(f"fn.{kind}: {ways[0][0]} leaves mode no choice", given=f"mode={mode!r}")
        mode = "not_smaller" if ways[0][0] == "resize_shorter" else "not_larger"
        arguments = {"resize_side": given[ways[0][0]]}
    if one_by_one and "resize_z" in one_by_one and "D" not in axes:
        raise DefinitionError(f"fn.{kind}: resize_z resizes along D", given=f"layout {layout!r}", expected="DHWC")
    _check_count(arguments.get("size", 0.0), axes, f"fn.{kind}: size")
    parts = [name for name in ("roi_start", "roi_end") if name in given]
    if len(parts) == 1:
        raise DefinitionError(f"fn.{kind}: roi_start and roi_end are given together", given=parts[0])
    for name in parts:
        _check_count(given[name], axes, f"fn.{kind}: {name}")
        arguments[name] = given[name]
    limits = np.atleast_1d(np.asarray(given.get("max_size", ()), np.float64)).tolist()
    _check_count(limits or 0.0, axes, f"fn.{kind}: max_size")
    limits = limits * len(axes) if len(limits) == 1 else limits
    return Sizing(
        layout,
        mode,
        tuple(limit if limit > 0 else math.inf for limit in limits),
        bool(given.get("roi_relative", False)),
        bool(given.get("subpixel_scale", True)),
        bool(filters.get("antialias", True)),
    ), arguments | interpolation(filters, kind)


def _given(size: Any) -> bool:
    return isinstance(size, DataNode) or bool(np.any(size)) or np.ndim(size) > 0


def _check_count(value: Any, axes: Sequence[str], what: str) -> None:
    count = (*value.spec.shape, 1)[0] if isinstance(value, DataNode) else np.size(value)
    if count not in (len(axes), 1, None):
        raise DefinitionError(
            f"{what} has a number for each axis, or one for all",
            given=f"{count} numbers",
            expected=f"{len(axes)}, for {', '.join(axes)}",
        )
