"""The size of a resized image, and the part of the image that is resized."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from penstock.data.spec import Shape, Spec, bounded
from penstock.graph.schema import Argument
from penstock.graph.trace import DataNode
from penstock.operators.axes import MAX_PIXELS, SPATIAL
from penstock.operators.geometry.filters import FILTER_SCHEMA
from penstock.operators.image.axis import Rows, chosen
from penstock.operators.image.steps import Part

Number = float | DataNode
Numbers = float | Sequence[float] | DataNode
Mode = Literal["default", "stretch", "not_larger", "not_smaller"]
Way = Literal["size", "one by one"]

MODES: tuple[Mode, ...] = ("default", "stretch", "not_larger", "not_smaller")
ONE_BY_ONE = {"D": "resize_z", "H": "resize_y", "W": "resize_x"}


SIZING_SCHEMA = {
    "size": Argument(shape=(None,)),
    "resize_side": Argument(),
    **{name: Argument() for name in ONE_BY_ONE.values()},
    "roi_start": Argument(shape=(None,), typical=0),
    "roi_end": Argument(shape=(None,)),
    **FILTER_SCHEMA,
}


@dataclass(frozen=True)
class Sizing:
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
            one = {name: SIZING_SCHEMA[name].rows(np, value, 1, varying=False) for name, value in known.items()}
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
        one = {name: SIZING_SCHEMA[name].rows(np, value, 1, varying=False) for name, value in arguments.items()}
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
            name: SIZING_SCHEMA[name].rows(np, value, 1, varying=False)
            for name, value in arguments.items()
            if not isinstance(value, Spec)
        }
        if one.keys() >= arguments.keys() - {"roi_start", "roi_end", "min_filter", "mag_filter"}:
            wanted = np.abs(self._wanted(one, self._any_image)[0]).tolist()
            if self.mode != "not_smaller":
                limits = [min(limit, w or math.inf) for limit, w in zip(limits, wanted, strict=True)]
        result = list(images.most)
        for axis, limit in zip(self.axes, limits, strict=True):
            result[self.layout.index(axis)] = None if limit == math.inf else int(self._rounded(np.float64(limit)))
        return bounded(result)

    def parts(self, extents: Sequence[Rows], arguments: Mapping[str, Any]) -> list[Part]:
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
            low, high = chosen(exact, low, first), chosen(exact, high, last)
        low, high = chosen(backwards, high, low), chosen(backwards, low, high)
        smaller = sizes < np.abs(high - low)
        filters = chosen(smaller, arguments["min_filter"][:, None], arguments["mag_filter"][:, None])
        return [Part(low[:, n], high[:, n], sizes[:, n], filters[:, n]) for n in range(len(extents))]

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
            result = np.copysign(chosen(scales == scale, np.abs(wanted), extents * scale), wanted)
        else:
            mean: Any = np.ones(len(wanted), np.float32)
            if self.mode == "default" and not given.all():
                count = np.maximum(given.sum(axis=1), 1)
                mean = chosen(given, scales, np.float32(1)).prod(axis=1)
                mean = chosen(count > 1, mean ** (np.float32(1) / count.astype(np.float32)), mean)
            result = chosen(given, wanted, extents * mean[:, None])
            result = np.copysign(np.minimum(np.abs(result), limits), result)
        return chosen(none[:, None], extents, result).astype(np.float32)
