"""Places of an image, mapped to where they have gone; for NumPy and JAX."""

from __future__ import annotations

from typing import Any

import numpy as np


def mapped(xp: Any, places: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
    """Where points have gone, and whether they can be seen at all: not beyond the horizon of a perspective.

    Args:
        xp: the array namespace.
        places: of the images, float32 (rows, 17).
        x: of points, in pixels, float32 (rows, n).
        y: likewise.
    """
    m = [places[:, k, None] for k in range(9)]
    w = m[6] * x + m[7] * y + m[8]
    there = w > 0
    w = xp.where(there, w, np.float32(1))
    return (m[0] * x + m[1] * y + m[2]) / w, (m[3] * x + m[4] * y + m[5]) / w, there


def extents(places: Any, *, first: bool, ratio: bool) -> tuple[Any, Any]:
    """By what coordinates x and y are multiplied to be in pixels.

    Args:
        places: of the images, float32 (rows, 17).
        first: whether in those of the first image; else of the last.
        ratio: whether coordinates are relative to the image.
    """
    height, width = (9, 10) if first else (15, 16)
    if not ratio:
        one = places[:, :1] * np.float32(0) + np.float32(1)
        return one, one
    return places[:, width, None], places[:, height, None]
