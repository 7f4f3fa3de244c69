"""Target size and ROI of a resized image, from DALI's arguments."""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypedDict

from penstock.core import Shape, Spec, bounds_or_none
from penstock.core.dataclass import dataclass
from penstock.errors import DefinitionError
from penstock.graph import SPATIAL, Argument, DataNode, Default
from penstock.image.codecs.image_header import MAX_PIXELS
from penstock.image.describe.axis_mapping import Rows, check_taps, where
from penstock.image.describe.steps import ResampleAxis
from penstock.operators.number_arguments import check_number_count
from penstock.operators.resizing.filter_arguments import filter_arguments

Number = Annotated[float | DataNode, Argument()]
Numbers = Annotated[float | Sequence[float] | DataNode, Argument(shape=(None,))]
Mode = Literal["default", "stretch", "not_larger", "not_smaller"]

# Arguments for the extents of single axes.
ONE_BY_ONE = {"D": "resize_z", "H": "resize_y", "W": "resize_x"}

# Smaller sizes have the scale of this one, as in DALI. Without a limit, filters would stretch over very many pixels.
_MIN_SIZE = 0.1


def check_pixels(extents: NDArray[Any]) -> None:
    """Check that images (rows, axes) have pixels.

    Raises:
        ValueError: One does not.
    """
    for row in np.flatnonzero((extents == 0).any(axis=1))[:1]:
        raise ValueError(f"an image of {' x '.join(f'{n:g}' for n in extents[row])} has no pixels to resize")


@dataclass(frozen=True)
class TargetSize:
    """Rule that maps the extents of an image to a ROI and a target size per axis.

    Requested sizes may differ between samples, so they are per-sample arguments of the operator and not fields.

    Args:
        layout: Layout of the images.
        mode: Mode of the user, or the one that `resize_shorter` and `resize_longer` imply.
        max_size: Limit per axis; infinity for none.
        relative: True if the ROI is in fractions of the extents.
        subpixel: True to adjust the ROI to the rounded size.
        antialias: True to widen filters where an image shrinks.
    """

    layout: str
    mode: Mode
    max_size: tuple[float, ...]
    relative: bool
    subpixel: bool
    antialias: bool

    @cached_property
    def axes(self) -> str:
        """Resized axes in the order D, H, W."""
        return "".join(axis for axis in SPATIAL if axis in self.layout)

    def shape(self, images: Spec, arguments: Mapping[str, Any]) -> Shape:
        """Return the shape of the result, with None for extents that are unknown while tracing."""
        axes = [self.layout.index(axis) for axis in self.axes]
        extents = [images.shape[axis] for axis in axes]
        constants = {name: value for name, value in arguments.items() if not isinstance(value, Spec)}
        one_row = one_row_of(constants)
        varying = arguments.keys() - constants.keys()
        sizes: Sequence[int | None] = [None] * len(axes)
        if not varying and None not in extents:
            # Everything is known: run the rule of run time on a batch of one row.
            sizes = [int(part.size[0]) for part in self.parts([np.array([extent]) for extent in extents], one_row)]
        # Modes that keep proportions need the image for every extent. A size that varies between samples leaves all
        # extents unknown: in mode "default" they depend on each other.
        elif self.mode in ("default", "stretch") and not varying & {"size", "resize_side", *ONE_BY_ONE.values()}:
            requested: list[float] = self._requested(one_row, self._any_image)[0].tolist()
            limited = zip(requested, self.max_size, strict=True)
            sizes = [int(self._round(np.float32(min(abs(size), limit)))) if size else None for size, limit in limited]
        result = dict(zip(axes, sizes, strict=True))
        return tuple(result.get(axis, extent) for axis, extent in enumerate(images.shape))

    def bounds(self, images: Spec, arguments: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the largest extents of the result, or () if they are unknown."""
        limits = list(self.max_size)
        one_row = one_row_of({name: value for name, value in arguments.items() if not isinstance(value, Spec)})
        if one_row.keys() >= arguments.keys() - {"roi_start", "roi_end", "min_filter", "mag_filter"}:
            requested = np.abs(self._requested(one_row, self._any_image)[0]).tolist()
            # "not_smaller" treats a requested extent as a minimum, so it bounds nothing.
            if self.mode != "not_smaller":
                limits = [min(limit, size or math.inf) for limit, size in zip(limits, requested, strict=True)]
        result = list(images.max_shape)
        for axis, limit in zip(self.axes, limits, strict=True):
            result[self.layout.index(axis)] = None if limit == math.inf else int(self._round(np.float64(limit)))
        return bounds_or_none(result)

    def parts(self, extents: Sequence[Rows], arguments: Mapping[str, Any]) -> list[ResampleAxis]:
        """Return the ROI, size and filter of each spatial axis, in the order D, H, W.

        Args:
            extents: Extents of the images along these axes, with an entry per row.
            arguments: Arguments of the size, the ROI and the filters, with an entry per row.

        Raises:
            ValueError: The ROI or an image is empty, a size is not possible, or a filter has too many taps.
        """
        image = np.stack(extents, axis=1).astype(np.float64)
        check_pixels(image)
        low, high = self._roi(image, arguments)
        target: Any = self._complete(self._requested(arguments, image), np.abs(high - low))
        # Checked before memory is allocated; at least one pixel per axis counts, since sizes round up to 1.
        impossible = ~np.isfinite(target).all(axis=1) | (np.maximum(np.abs(target), 1.0).prod(axis=1) > MAX_PIXELS)
        for row in np.flatnonzero(impossible)[:1]:
            raise ValueError(
                f"a size of {target[row].tolist()} is not possible; an image has at most {MAX_PIXELS} pixels"
            )
        # A negative size mirrors the axis, as in DALI: the ROI is resampled from its end to its start.
        backwards, target = target < 0, np.maximum(np.abs(target), _MIN_SIZE)
        sizes = self._round(target)
        if self.subpixel:
            exact = sizes == target
            first, last = self._adjusted_roi(low, high, sizes, target, backwards, arguments)
            low, high = where(exact, low, first), where(exact, high, last)
        low, high = where(backwards, high, low), where(backwards, low, high)
        smaller = sizes < np.abs(high - low)
        filters = where(smaller, arguments["min_filter"][:, None], arguments["mag_filter"][:, None])
        result = [ResampleAxis(low[:, n], high[:, n], sizes[:, n], filters[:, n]) for n in range(len(extents))]
        for part in result if self.antialias else ():
            check_taps(part.low, part.high, part.size, part.filters)
        return result

    @property
    def _any_image(self) -> NDArray[np.float64]:
        """Placeholder for the extents of an image where they do not matter."""
        return np.ones((1, len(self.axes)))

    def _adjusted_roi(
        self, low: Any, high: Any, sizes: Any, target: Any, backwards: Any, arguments: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        """Widen or narrow the ROI about its center, so that `sizes` has the scale of the fractional `target`."""
        del backwards, arguments
        with np.errstate(divide="ignore", invalid="ignore"):
            center, half = (low + high) / 2, (high - low) / 2 * sizes / target
        return center - half, center + half

    def _round(self, sizes: Any) -> Any:
        """Round to whole pixels, at least one."""
        return np.maximum(1, np.floor(sizes + 0.5)).astype(np.int64)

    def _requested(self, arguments: Mapping[str, Any], extents: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the requested extents (rows, axes), 0 where none is requested."""
        rows = len(extents)
        if "resize_side" in arguments:
            return np.repeat(arguments["resize_side"][:, None], len(self.axes), axis=1)
        if "size" in arguments:
            return np.broadcast_to(arguments["size"], (rows, len(self.axes)))
        none = np.zeros(rows)
        return np.stack([arguments.get(ONE_BY_ONE[axis], none) for axis in self.axes], axis=1)

    def _roi(self, extents: NDArray[np.float64], arguments: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the start and the end of the ROI, (rows, axes) each."""
        if "roi_start" not in arguments:
            return np.zeros_like(extents), extents
        low, high = (np.broadcast_to(arguments[name], extents.shape) for name in ("roi_start", "roi_end"))
        for row in np.flatnonzero((low == high).any(axis=1))[:1]:
            raise ValueError(f"the ROI to resize is empty: from {low[row].tolist()} to {high[row].tolist()}")
        if not self.relative:
            return low, high
        # DALI takes fractions in float32.
        return low.astype(np.float32) * extents, high.astype(np.float32) * extents

    def _complete(self, requested: Any, extents: Any) -> Any:
        """Return all extents of the result, before rounding, from the requested ones."""
        # DALI computes them in float32, except for its limits; sizes near a half depend on it.
        requested, extents = requested.astype(np.float32), extents.astype(np.float32)
        present = requested != 0
        absent = ~present.any(axis=1)
        scales = np.abs(requested) / extents
        limits = np.array(self.max_size)
        if self.mode in ("not_larger", "not_smaller"):
            fits = self.mode == "not_larger"
            scale = np.where(present, scales, np.inf if fits else -np.inf)
            scale = scale.min(axis=1) if fits else scale.max(axis=1)
            scale = np.minimum(scale, (limits / extents).min(axis=1))[:, None]
            # The extent that determines the scale is the requested one, not its product with a rounded scale.
            result = np.copysign(where(scales == scale, np.abs(requested), extents * scale), requested)
        else:
            # In mode "default" the other extents get the geometric mean of the requested scales, as in DALI.
            mean: Any = np.ones(len(requested), np.float32)
            if self.mode == "default" and not present.all():
                count = np.maximum(present.sum(axis=1), 1)
                mean = where(present, scales, np.float32(1)).prod(axis=1)
                mean = where(count > 1, mean ** (np.float32(1) / count.astype(np.float32)), mean)
            result = where(present, requested, extents * mean[:, None])
            result = np.copysign(np.minimum(np.abs(result), limits), result)
        return where(absent[:, None], extents, result).astype(np.float32)


class SizeArguments(TypedDict, total=False):
    """Size of a resized image, and the ROI that is resized.

    Give the size in exactly one way. Numbers may be nodes, with a value per sample.

    Args:
        size: Size in pixels: (height, width), (depth, height, width), or one number for all axes. An extent of 0
            follows from the others according to `mode`; a negative one mirrors the image.
        resize_x: Width in pixels; alone or with `resize_y` and `resize_z`.
        resize_y: Height in pixels.
        resize_z: Depth in pixels, for volumes.
        resize_shorter: Length of the shorter side; the others keep the aspect ratio.
        resize_longer: Length of the longer side; the others keep the aspect ratio.
        mode: "default": missing extents keep the aspect ratio. "stretch": missing extents keep their size. "not_larger"
            and "not_smaller": the image keeps its aspect ratio and just fits into, or just covers, the size.
        max_size: Limit for all extents, or one per extent. Modes that keep the aspect ratio keep it under the limit.
        roi_start: Start of the ROI to resize, one number per spatial axis, in pixels or relative (see `roi_relative`).
        roi_end: End of the ROI. If it is less than the start, the result is mirrored.
        roi_relative: If True, the ROI is in fractions of the image.
        subpixel_scale: If True, the ROI is adjusted if an extent is rounded, so that the scale is exact.
    """

    size: Numbers
    resize_x: Number
    resize_y: Number
    resize_z: Number
    resize_shorter: float | DataNode
    resize_longer: float | DataNode
    mode: Annotated[Mode, Default("default")]
    max_size: float | Sequence[float]
    roi_start: Annotated[Sequence[float] | DataNode, Argument(shape=(None,), example=0)]
    roi_end: Annotated[Sequence[float] | DataNode, Argument(shape=(None,))]
    roi_relative: Annotated[bool, Default(False)]
    subpixel_scale: Annotated[bool, Default(True)]


def sizing(values: Mapping[str, Any], layout: str) -> tuple[TargetSize, dict[str, Any]]:
    """Return the sizing rule, and the per-sample arguments for the size, the ROI and the filters.

    Args:
        values: Arguments of the public operator, those of `SizeArguments` and `FilterArguments` among them.
        layout: Layout of the images.

    Raises:
        DefinitionError: The size is given twice or not at all, an argument has the wrong number of values, or only one
            end of the ROI is given.
    """
    axes = [axis for axis in SPATIAL if axis in layout]
    single = ONE_BY_ONE.values()
    named = [name for name in ("size", "resize_shorter", "resize_longer", *single) if name in values]
    if not named or (len(named) > 1 and not set(named) <= set(single)):
        raise DefinitionError(
            f"{' and '.join(named)} cannot be combined" if named else "the size is missing",
            expected="one of size, resize_x/resize_y/resize_z, resize_shorter, resize_longer",
        )
    # DALI takes a size of 0 as "not given". If there is no other, it keeps the size of the image.
    ways = [name for name in named if _is_request(values[name])] or named[:1]
    mode = values.get("mode", "default")
    arguments: dict[str, Any] = {name: values[name] for name in ways}
    if ways[0] in ("resize_shorter", "resize_longer"):
        if mode != "default":
            raise DefinitionError(f"{ways[0]} cannot be combined with mode", given=f"mode={mode!r}")
        # A side for all axes: covering it makes the shorter side that long, and fitting into it the longer one.
        mode = "not_smaller" if ways[0] == "resize_shorter" else "not_larger"
        arguments = {"resize_side": values[ways[0]]}
    if "D" not in axes and _is_request(values.get("resize_z", 0)):
        raise DefinitionError("resize_z needs an axis D", given=f"layout {layout!r}", expected="DHWC")
    parts = [name for name in ("roi_start", "roi_end") if name in values]
    if len(parts) == 1:
        raise DefinitionError("roi_start and roi_end must be given together", given=parts[0])
    arguments |= {name: values[name] for name in parts}
    limits = values.get("max_size", 0.0)
    for name, value in {**arguments, "max_size": limits}.items():
        check_number_count(name, value, len(axes))
    return TargetSize(
        layout,
        mode,
        tuple(np.broadcast_to(limits_of(limits), len(axes)).tolist()),
        bool(values.get("roi_relative", False)),
        bool(values.get("subpixel_scale", True)),
        bool(values.get("antialias", True)),
    ), arguments | filter_arguments(values)


def limits_of(max_size: Any) -> Any:
    """Return limits as an array; a limit of 0 or less means no limit."""
    limits = np.asarray(max_size, np.float64)
    return np.where(limits > 0, limits, math.inf)


def one_row_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Convert constants to per-sample arguments of a batch of one row."""
    return {name: np.atleast_1d(np.asarray(value, np.float64)) for name, value in arguments.items()}


def _is_request(size: Any) -> bool:
    """Return True if a size argument requests a size; DALI takes the number 0 as "not given"."""
    return isinstance(size, DataNode) or bool(np.any(size)) or np.ndim(size) > 0
