"""The size of a resized image, and the part of the image that is resized."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from penstock.core.spec import Shape, Spec, bounds_or_none
from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_marks import Default, Doc
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.layouts import SPATIAL
from penstock.graph.tracing.trace import DataNode
from penstock.image.codecs.image_header import MAX_PIXELS
from penstock.image.describe.axis_mapping import Rows, where
from penstock.image.describe.steps import ResampleAxis
from penstock.operators.resizing.filter_arguments import FILTER_SCHEMA, FilterArguments, filter_arguments

Number = float | DataNode
Numbers = float | Sequence[float] | DataNode
Mode = Literal["default", "stretch", "not_larger", "not_smaller"]
SizeSpec = Literal["size", "one by one"]

ONE_BY_ONE = {"D": "resize_z", "H": "resize_y", "W": "resize_x"}


SIZING_SCHEMA = {
    "size": Argument(shape=(None,)),
    "resize_side": Argument(),
    **{name: Argument() for name in ONE_BY_ONE.values()},
    "roi_start": Argument(shape=(None,), example=0),
    "roi_end": Argument(shape=(None,)),
    **FILTER_SCHEMA,
}


@dataclass(frozen=True)
class TargetSize:
    """From the size of an image to what becomes of its axes. The sizes asked for are arguments of the operator.

    Args:
        layout: of the images.
        mode: as the user gave it, or what resize_shorter and resize_longer mean.
        max_size: a limit per axis, or empty.
        relative: whether the part to resize is given in fractions.
        subpixel: whether it is adjusted to the rounded size.
        antialias: whether filters are stretched.
    """

    layout: str
    mode: Mode
    max_size: tuple[float, ...]
    relative: bool
    subpixel: bool
    antialias: bool

    @cached_property
    def axes(self) -> str:
        """The axes that are resized, in the order D, H, W."""
        return "".join(axis for axis in SPATIAL if axis in self.layout)

    def shape(self, images: Spec, arguments: Mapping[str, Any]) -> Shape:
        """The shape of the result, as far as it is known before there is data."""
        result = list(images.shape)
        places = [self.layout.index(axis) for axis in self.axes]
        known = {name: value for name, value in arguments.items() if not isinstance(value, Spec)}
        if known.keys() == arguments.keys() and all(images.shape[at] is not None for at in places):
            extents = [np.array([images.shape[at]]) for at in places]
            one = {
                name: SIZING_SCHEMA[name].broadcast_rows(np, value, 1, varying=False) for name, value in known.items()
            }
            sizes: Sequence[int | None] = [int(part.size[0]) for part in self.parts(extents, one)]
        elif any(name in arguments and name not in known for name in ("size", "resize_side", *ONE_BY_ONE.values())):
            sizes = [None] * len(places)
        else:
            sizes = self._whatever_the_image(known)
        for at, size in zip(places, sizes, strict=True):
            result[at] = size
        return tuple(result)

    def _whatever_the_image(self, arguments: Mapping[str, Any]) -> list[int | None]:
        """The extents that do not depend on the image."""
        one = {
            name: SIZING_SCHEMA[name].broadcast_rows(np, value, 1, varying=False) for name, value in arguments.items()
        }
        wanted: list[float] = self._wanted(one, self._any_image)[0].tolist()
        if self.mode not in ("default", "stretch"):
            return [None] * len(wanted)
        limits = self.max_size or (math.inf,) * len(wanted)
        sizes = [
            self._rounded(np.float32(min(abs(w), limit))) if w else None
            for w, limit in zip(wanted, limits, strict=True)
        ]
        return [None if size is None else int(size) for size in sizes]

    def bounds(self, images: Spec, arguments: Mapping[str, Any]) -> tuple[int, ...]:
        """The largest extents of the result; empty where they are not known."""
        limits: list[float] = list(self.max_size or (math.inf,) * len(self.axes))
        one = {
            name: SIZING_SCHEMA[name].broadcast_rows(np, value, 1, varying=False)
            for name, value in arguments.items()
            if not isinstance(value, Spec)
        }
        if one.keys() >= arguments.keys() - {"roi_start", "roi_end", "min_filter", "mag_filter"}:
            wanted = np.abs(self._wanted(one, self._any_image)[0]).tolist()
            if self.mode != "not_smaller":
                limits = [min(limit, w or math.inf) for limit, w in zip(limits, wanted, strict=True)]
        result = list(images.max_shape)
        for axis, limit in zip(self.axes, limits, strict=True):
            result[self.layout.index(axis)] = None if limit == math.inf else int(self._rounded(np.float64(limit)))
        return bounds_or_none(result)

    def parts(self, extents: Sequence[Rows], arguments: Mapping[str, Any]) -> list[ResampleAxis]:
        """What becomes of the spatial axes, in the order D, H, W.

        Args:
            extents: of the images along these axes, one entry per row.
            arguments: those of `SIZING_SCHEMA`, with an entry per row.

        Raises:
            ValueError: the part to resize is empty, an image too, or a size that is not possible.
        """
        there = np.stack(extents, axis=1).astype(np.float64)
        for row in np.flatnonzero((there == 0).any(axis=1))[:1]:
            raise ValueError(f"an image of {' x '.join(f'{n:g}' for n in there[row])} has no pixels to resize")
        low, high = self._ranges(there, arguments)
        wanted: Any = self._completed(self._wanted(arguments, there), np.abs(high - low))
        impossible = ~np.isfinite(wanted).all(axis=1) | (np.maximum(np.abs(wanted), 1.0).prod(axis=1) > MAX_PIXELS)
        for row in np.flatnonzero(impossible)[:1]:
            raise ValueError(
                f"a size of {wanted[row].tolist()} is not possible; an image has at most {MAX_PIXELS} pixels"
            )
        sizes, backwards = self._rounded(np.abs(wanted)), wanted < 0
        if self.subpixel:
            exact = sizes == np.abs(wanted)
            first, last = self._widened(low, high, sizes, np.abs(wanted), backwards, arguments)
            low, high = where(exact, low, first), where(exact, high, last)
        low, high = where(backwards, high, low), where(backwards, low, high)
        smaller = sizes < np.abs(high - low)
        filters = where(smaller, arguments["min_filter"][:, None], arguments["mag_filter"][:, None])
        return [ResampleAxis(low[:, n], high[:, n], sizes[:, n], filters[:, n]) for n in range(len(extents))]

    @property
    def _any_image(self) -> NDArray[np.float64]:
        """The extents of an image, where they do not matter."""
        return np.ones((1, len(self.axes)))

    def _widened(
        self, low: Any, high: Any, sizes: Any, wanted: Any, backwards: Any, arguments: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        """The ranges that are resized to `sizes` on the scale on which those given are to `wanted`."""
        del backwards, arguments
        with np.errstate(divide="ignore", invalid="ignore"):
            centre, half = (low + high) / 2, (high - low) / 2 * sizes / wanted
        return centre - half, centre + half

    def _rounded(self, sizes: Any) -> Any:
        """Whole numbers of pixels, at least one."""
        return np.maximum(1, np.floor(sizes + 0.5)).astype(np.int64)

    def _wanted(self, arguments: Mapping[str, Any], extents: NDArray[np.float64]) -> NDArray[np.float64]:
        """The extents that were asked for, (rows, axes); 0 for those that were not."""
        rows = len(extents)
        if "resize_side" in arguments:
            return np.repeat(arguments["resize_side"][:, None], len(self.axes), axis=1)
        if "size" in arguments:
            return np.broadcast_to(arguments["size"], (rows, len(self.axes)))
        none = np.zeros(rows)
        return np.stack([arguments.get(ONE_BY_ONE[axis], none) for axis in self.axes], axis=1)

    def _ranges(self, extents: NDArray[np.float64], arguments: Mapping[str, Any]) -> tuple[Any, Any]:
        """From where to where each axis is resized, (rows, axes)."""
        if "roi_start" not in arguments:
            return np.zeros_like(extents), extents
        low, high = (np.broadcast_to(arguments[name], extents.shape) for name in ("roi_start", "roi_end"))
        for row in np.flatnonzero((low == high).any(axis=1))[:1]:
            raise ValueError(f"the part to resize is empty: from {low[row].tolist()} to {high[row].tolist()}")
        if not self.relative:
            return low, high
        return low.astype(np.float32) * extents, high.astype(np.float32) * extents  # as DALI takes them

    def _completed(self, wanted: Any, extents: Any) -> Any:
        """All extents of the result, not yet rounded, from those that were asked for; in float32, as in DALI.

        Where two extents share a scale, the one that decides it is what was asked for.
        """
        wanted, extents = wanted.astype(np.float32), extents.astype(np.float32)
        given = wanted != 0
        none = ~given.any(axis=1)
        scales = np.abs(wanted) / extents
        limits = np.array(self.max_size or (np.inf,) * len(self.axes))  # DALI has them in float64
        if self.mode in ("not_larger", "not_smaller"):
            fits = self.mode == "not_larger"
            scale = np.where(given, scales, np.inf if fits else -np.inf)
            scale = scale.min(axis=1) if fits else scale.max(axis=1)
            scale = np.minimum(scale, (limits / extents).min(axis=1))[:, None]
            result = np.copysign(where(scales == scale, np.abs(wanted), extents * scale), wanted)
        else:
            mean: Any = np.ones(len(wanted), np.float32)
            if self.mode == "default" and not given.all():
                count = np.maximum(given.sum(axis=1), 1)
                mean = where(given, scales, np.float32(1)).prod(axis=1)
                mean = where(count > 1, mean ** (np.float32(1) / count.astype(np.float32)), mean)
            result = where(given, wanted, extents * mean[:, None])
            result = np.copysign(np.minimum(np.abs(result), limits), result)
        return where(none[:, None], extents, result).astype(np.float32)


class SizeArguments(TypedDict, total=False):
    """Size of a resized image, and the ROI that is resized.

    Give the size in exactly one way. Numbers may be nodes, with a value per sample.
    """

    size: Annotated[
        Numbers,
        Doc(
            "Size in pixels: (height, width), (depth, height, width), or one number for all axes. An extent of 0 "
            "follows from the others; a negative one mirrors the image."
        ),
    ]
    resize_x: Annotated[Number, Doc("Width in pixels; alone or with `resize_y` and `resize_z`.")]
    resize_y: Annotated[Number, Doc("Height in pixels.")]
    resize_z: Annotated[Number, Doc("Depth in pixels, for volumes.")]
    resize_shorter: Annotated[Number, Doc("Length of the shorter side; the others keep the aspect ratio.")]
    resize_longer: Annotated[Number, Doc("Length of the longer side; the others keep the aspect ratio.")]
    mode: Annotated[
        Mode,
        Default("default"),
        Doc(
            '"default": extents that are not given keep the aspect ratio. "stretch": they do not change. '
            '"not_larger", "not_smaller": the image keeps its aspect ratio and just fits into, or covers, the size.'
        ),
    ]
    max_size: Annotated[
        float | Sequence[float],
        Doc("Limit for all extents, or one per extent. Modes that keep the aspect ratio keep it under the limit."),
    ]
    roi_start: Annotated[
        Sequence[float] | DataNode,
        Doc("Start of the ROI to resize, one number per spatial axis, in pixels or as `roi_relative` says."),
    ]
    roi_end: Annotated[
        Sequence[float] | DataNode,
        Doc("End of the ROI. If it is less than the start, the result is mirrored."),
    ]
    roi_relative: Annotated[bool, Default(False), Doc("If True, the ROI is in fractions of the image.")]
    subpixel_scale: Annotated[
        bool,
        Default(True),
        Doc("If True, the ROI is adjusted where an extent is rounded, so that the scale is exact."),
    ]


def sizing(sizes: SizeArguments, filters: FilterArguments, layout: str, kind: str) -> tuple[TargetSize, dict[str, Any]]:
    """The sizing that a user's arguments describe, and the operator arguments for sizes, part and filters.

    Raises:
        DefinitionError: no size is given, or in two ways; too many or too few numbers; half a part.
        ArgumentTypeError: an interpolation that does not exist.
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
    return TargetSize(
        layout,
        mode,
        tuple(limit if limit > 0 else math.inf for limit in limits),
        bool(given.get("roi_relative", False)),
        bool(given.get("subpixel_scale", True)),
        bool(filters.get("antialias", True)),
    ), arguments | filter_arguments(filters, kind)


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
