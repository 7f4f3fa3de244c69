"""Pixels of samples: uint8 images that a screen shows, made of arrays of any dtype and layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.core import Array
from penstock.errors import DefinitionError

# Shares of the values that may be clipped to black and to white, so that single outliers do not darken an image.
_LOW, _HIGH = 0.5, 99.5

_COLOR_CHANNELS = (1, 3, 4)

_MIN_SIDE = 8


@dataclass(frozen=True)
class DisplayRange:
    """Values that are shown as black and white.

    Args:
        low: Value of black.
        high: Value of white.
        note: How the range was chosen, for the title of a figure; "" if there is nothing to say.
    """

    low: float
    high: float
    note: str = ""

    def apply(self, values: Array) -> Array:
        """Return the values as uint8."""
        scaled = (values.astype(np.float32) - self.low) * (255.0 / max(self.high - self.low, 1e-12))
        return np.clip(np.nan_to_num(np.rint(scaled)), 0, 255).astype(np.uint8)


def has_image_shape(shape: Sequence[int]) -> bool:
    """Return True for the shape of one image with an axis of 1, 3 or 4 channels.

    >>> has_image_shape((3, 224, 224)), has_image_shape((8, 224, 224))
    (True, False)
    """
    return len(shape) == 3 and (shape[0] in _COLOR_CHANNELS or shape[-1] in _COLOR_CHANNELS)


def guess_layout(shape: Sequence[int]) -> str:
    """Return the layout of a sample by its shape: "t" for sound, "HW", "HWC", "CHW", "FHWC" or "FCHW".

    Raises:
        DefinitionError: The sample has too many axes.

    >>> guess_layout((3, 224, 224)), guess_layout((224, 224, 3)), guess_layout((8, 64, 64, 1))
    ('CHW', 'HWC', 'FHWC')
    """
    axes = len(shape)
    if axes == 1:
        return "t"
    if axes == 2:
        return "HW"
    frames = "F" if axes == 4 else ""
    if axes == 3 or frames:
        first = shape[-3] in _COLOR_CHANNELS and shape[-1] not in _COLOR_CHANNELS
        return frames + ("CHW" if first else "HWC")
    raise DefinitionError("a sample with these axes is no picture", given=f"shape {list(shape)}", fix="layout=")


def as_frames(sample: Array, layout: str) -> Array:
    """Return a sample as frames, ``(F, H, W, C)`` in its own dtype.

    Raises:
        DefinitionError: The layout has other axes than F, H, W and C.
    """
    if len(layout) != sample.ndim or not set("HW") <= set(layout) <= set("FHWC") or len(set(layout)) != len(layout):
        raise DefinitionError(
            "an image has the axes H and W, and may have F and C",
            given=f"layout {layout!r} for a sample of shape {list(sample.shape)}",
            fix='layout="HWC"',
        )
    frames = sample.transpose([layout.index(axis) for axis in "FHWC" if axis in layout])
    if "C" not in layout:
        frames = frames[..., None]
    return frames if "F" in layout else frames[None]


def image_frames(sample: Array, layout: str) -> Array | None:
    """Return the frames of a sample, ``(F, H, W, C)``, if it is an image or video; otherwise None.

    A sample without a layout is an image if it has the shape of one and no side is shorter than 8 pixels: a smaller
    matrix is more often numbers.

    >>> image_frames(np.zeros((3, 9, 9)), "").shape, image_frames(np.zeros((4, 4)), "")
    ((1, 9, 9, 3), None)
    """
    array = sample if sample.dtype.kind in "biuf" else sample.astype(np.float32)  # bfloat16
    if not array.size:
        return None
    if not layout:
        if array.ndim not in (2, 3) or min(sorted(array.shape)[-2:]) < _MIN_SIDE:
            return None
        if array.ndim == 3 and not has_image_shape(array.shape):
            return None
        layout = guess_layout(array.shape)
    try:
        return as_frames(array, layout)
    except DefinitionError:  # volumes, sound, boxes
        return None


def display_range(frames: Sequence[Array], *, normalized: bool = False, peak: float = 0.0) -> DisplayRange:
    """Choose one range for all samples of a batch, so that they can be compared.

    Args:
        frames: The samples.
        normalized: True if their normalization has been undone.
        peak: Value of white before the normalization; 0 if unknown.
    """
    first = frames[0]
    if first.dtype == np.uint8:
        return DisplayRange(0, 255)
    if first.dtype == np.bool_:
        return DisplayRange(0, 1)
    if normalized and peak:
        return DisplayRange(0, peak, "mean and std undone")
    values = np.concatenate([np.ravel(item).astype(np.float32) for item in frames])
    values = values[np.isfinite(values)]
    if not values.size:
        return DisplayRange(0, 1, "no finite values")
    low, high = float(values.min()), float(values.max())
    if first.dtype.kind == "f" and low >= 0 and 0 < high <= 1:
        return DisplayRange(0, 1)
    if low != high:
        low, high = (float(bound) for bound in np.percentile(values, [_LOW, _HIGH]))
    prefix = "mean and std undone, " if normalized else ""
    return DisplayRange(low, high, f"{prefix}black is {low:.4g}, white is {high:.4g}")


def to_pixels(frames: Array, values: DisplayRange) -> Array:
    """Return frames as uint8, ``(F, H, W)`` for gray and ``(F, H, W, 3 or 4)`` for color.

    Of an image with another number of channels, the first is shown.
    """
    pixels = frames if frames.dtype == np.uint8 else values.apply(frames)
    return pixels if pixels.shape[-1] in (3, 4) else pixels[..., 0]
