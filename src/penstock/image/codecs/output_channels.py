"""Output types: their number of channels, and conversion to them."""

import numpy as np

from penstock.core import Array
from penstock.types import ANY_DATA, BGR, GRAY, RGB, DALIImageType, YCbCr

CHANNELS: dict[DALIImageType, int | None] = {RGB: 3, BGR: 3, YCbCr: 3, GRAY: 1, ANY_DATA: None}
"""Number of channels of each output type; None if the file determines it."""


def as_output_type(pixels: Array, output_type: DALIImageType) -> Array:
    """Convert gray, gray + alpha, RGB or RGBA pixels to an output type."""
    if output_type is ANY_DATA:
        return pixels
    gray = pixels.shape[2] < 3
    if output_type is GRAY:
        return pixels[..., :1] if gray else _luma(pixels)
    colors = np.repeat(pixels[..., :1], 3, axis=2) if gray else pixels[..., :3]
    if output_type is YCbCr:
        return ycbcr(colors)
    return colors[..., ::-1] if output_type is BGR else colors


def _luma(pixels: Array) -> Array:
    """Return the luma of RGB pixels, truncated to integers as in DALI's decoder."""
    # BT.601 weights in thousandths: integer sums are exact, and a truncated result depends on their last bit.
    weighed = pixels[..., :3].astype(np.uint32) @ np.array([299, 587, 114], np.uint32)
    return (weighed // 1000).astype(pixels.dtype)[..., None]


def ycbcr(pixels: Array) -> Array:
    """Convert RGB pixels to Y (16..235), Cb and Cr (16..240) of ITU-R BT.601, studio range."""
    # The coefficients of BT.601 for 8 bits; 16-bit pixels use the same ones, with scaled offsets.
    scale = np.float32(np.iinfo(pixels.dtype).max) / np.float32(255)
    matrix = np.array([[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]], np.float32)
    result = pixels.astype(np.float32) @ (matrix.T / np.float32(255)) + np.array([16, 128, 128], np.float32) * scale
    return (result + np.float32(0.5)).astype(pixels.dtype)
