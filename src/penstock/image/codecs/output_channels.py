"""Output types: how many channels each has, and how other channels become them."""

from __future__ import annotations

import numpy as np

from penstock.core.columns import Array
from penstock.types import ANY_DATA, BGR, GRAY, RGB, DALIImageType, YCbCr

CHANNELS: dict[DALIImageType, int | None] = {RGB: 3, BGR: 3, YCbCr: 3, GRAY: 1, ANY_DATA: None}
"""How many channels each output type has; None where the file decides."""


def as_output_type(pixels: Array, output_type: DALIImageType) -> Array:
    """Pixels of one (grey), two (and alpha), three (RGB) or four (and alpha) channels as an output type."""
    if output_type is ANY_DATA:
        return pixels
    grey = pixels.shape[2] < 3
    if output_type is GRAY:
        return pixels[..., :1] if grey else _luma(pixels)
    colours = np.repeat(pixels[..., :1], 3, axis=2) if grey else pixels[..., :3]
    if output_type is YCbCr:
        return ycbcr(colours)
    return colours[..., ::-1] if output_type is BGR else colours


def _luma(pixels: Array) -> Array:
    """The luma of RGB pixels, fractions cut off, as DALI's decoder has it."""
    weighed = pixels[..., :3].astype(np.uint32) @ np.array([299, 587, 114], np.uint32)
    return (weighed // 1000).astype(pixels.dtype)[..., None]


def ycbcr(pixels: Array) -> Array:
    """RGB pixels as Y, Cb and Cr of ITU-R BT.601, studio range: 16..235 and 16..240."""
    scale = np.float32(np.iinfo(pixels.dtype).max) / np.float32(255)
    matrix = np.array([[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]], np.float32)
    result = pixels.astype(np.float32) @ (matrix.T / np.float32(255)) + np.array([16, 128, 128], np.float32) * scale
    return (result + np.float32(0.5)).astype(pixels.dtype)
