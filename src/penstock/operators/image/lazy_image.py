"""An image that is decoded, but not yet cut, resampled or mirrored: what fused operators pass on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from penstock.data.source import Array
from penstock.operators.convert import convert
from penstock.operators.image.resample import Axis, resample, whole


@dataclass(frozen=True, slots=True)
class LazyImage:
    """What is to be taken from an image of layout HWC.

    Args:
        pixels: the image, (height, width, channels). It may be borrowed, until the next sample.
        rows, columns: what becomes of its axes.
        dtype: of the result; resampled integers are rounded and saturated.
    """

    pixels: Array
    rows: Axis
    columns: Axis
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the result."""
        return self.rows.length, self.columns.length, self.pixels.shape[2]

    @property
    def resampled(self) -> bool:
        """Whether pixels are computed, not only picked."""
        return self.rows.resampled or self.columns.resampled

    def cut(self, spans: Mapping[int, tuple[int, int]]) -> LazyImage:
        """A window of it: per axis the first pixel and how many."""
        rows = self.rows.cut(*spans[0]) if 0 in spans else self.rows
        columns = self.columns.cut(*spans[1]) if 1 in spans else self.columns
        return replace(self, rows=rows, columns=columns)

    def mirror(self, *, vertical: bool = False, horizontal: bool = False) -> LazyImage:
        """Exchange top and bottom, left and right."""
        rows, columns = self.rows, self.columns
        return replace(
            self,
            rows=rows._replace(mirrored=rows.mirrored != vertical),
            columns=columns._replace(mirrored=columns.mirrored != horizontal),
        )

    def view(self) -> Array:
        """The result, if nothing is resampled: a view of the image."""
        return self.pixels[self.rows.picked(), self.columns.picked()]

    def finish(self, out: Array | None = None) -> Array:
        """The result.

        Args:
            out: where it may be written, if it has the right shape and dtype.
        """
        if out is not None and (out.shape != self.shape or out.dtype != self.dtype):
            out = None
        if not self.resampled:
            view = self.view()
            if out is None:
                return np.array(view)
            np.copyto(out, view)
            return out
        if self.dtype.name not in ("uint8", "float32"):
            return convert(np, self._resample(np.empty(self.shape, np.float32)), self.dtype)
        return self._resample(np.empty(self.shape, self.dtype) if out is None else out)

    def normalize(self, mean: Array | None, factor: Array | None, shift: float, out: Array) -> None:
        """Write ``(result - mean) * factor + shift``, the result first rounded to its dtype, which is uint8 or float32.

        Args:
            mean: float32, one number or one per channel; None leaves it out.
            factor: the same.
            shift: a number.
            out: float32 (height, width, channels), in any order in memory.
        """
        self._resample(out, mean, factor, shift)

    def _resample(
        self, out: Array, mean: Array | None = None, factor: Array | None = None, shift: float = 0.0
    ) -> Array:
        pixels = self.pixels if self.pixels.dtype.name in ("uint8", "float32") else self.pixels.astype(np.float32)
        height, width, channels = pixels.shape
        resample(
            np.ascontiguousarray(pixels).reshape(height, width * channels),
            channels,
            self.rows,
            self.columns,
            self.dtype == np.uint8,
            _per_channel(mean, 0.0, channels),
            _per_channel(factor, 1.0, channels),
            np.float32(shift),
            out,
        )
        return out


def lazy_image(image: Array | LazyImage) -> LazyImage:
    """An image as a lazy one, of which nothing is left to do."""
    if isinstance(image, LazyImage):
        return image
    return LazyImage(image, whole(image.shape[0]), whole(image.shape[1]), image.dtype)


@lru_cache(maxsize=64)
def _all(value: float, channels: int) -> Array:
    """The same number for each channel."""
    return np.full(channels, value, np.float32)


def _per_channel(term: Array | None, neutral: float, channels: int) -> Array:
    if term is None:
        return _all(neutral, channels)
    return np.ascontiguousarray(np.broadcast_to(term.reshape(-1), (channels,)))
