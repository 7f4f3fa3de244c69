"""Where pixels have gone: the geometry of a chain of image operators, as numbers with an entry per row.

The steps that image operators describe say all that is needed: what is done to pixels in one place of the engine is
done to places here. A geometry is float64 (rows, 15 + axes), in these columns:

* 0 to 8, the matrix from a place of the first image to a place of the present one, row by row. The corner of the first
  pixel has the coordinates (0, 0), its centre (0.5, 0.5);
* 9 and 10, height and width of the first image;
* 11 to 14, top, left, bottom and right of what the first image covers of the present one;
* the rest, the extents of the present image along its axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.image.describe.steps import CropStep, CustomStep, MirrorStep, ResampleStep, Step, TransposeStep

Geometry = NDArray[np.float64]

EXTENTS = 15
"""The column in which the extents begin."""


def begin(extents: NDArray[Any], layout: str) -> Geometry:
    """The geometry of images to which nothing has been done.

    Args:
        extents: (rows, axes).
        layout: names the axes.
    """
    result = np.zeros((len(extents), EXTENTS + len(layout)))
    result[:, [0, 4, 8]] = 1
    result[:, EXTENTS:] = extents
    result[:, 9:11] = result[:, 13:15] = extents[:, [layout.index("H"), layout.index("W")]]
    return result


def moved(geometry: Geometry, layout: str, steps: Sequence[Step]) -> Geometry:
    """The geometry after some steps.

    Args:
        geometry: of the images before them.
        layout: of these images.
        steps: what is done.

    Raises:
        ValueError: something is done of which no matrix says where it moves pixels, or one that has no inverse.
    """
    result = geometry.copy()
    for step in steps:
        match step:
            case CropStep(axis, first, length):
                _scale(result, layout, axis, 1.0, -first, length)
            case MirrorStep(axis, flags):
                extent = result[:, EXTENTS + axis]
                _scale(result, layout, axis, np.where(flags, -1.0, 1.0), np.where(flags, extent, 0.0), extent.copy())
            case ResampleStep(parts):
                for axis, part in parts.items():
                    factor = part.size / np.asarray(part.high - part.low, np.float64)
                    _scale(result, layout, axis, factor, -part.low * factor, part.size)
            case TransposeStep(order):
                result[:, EXTENTS:] = result[:, [EXTENTS + axis for axis in order]]
                layout = "".join(layout[axis] for axis in order)
            case CustomStep(transform, sizes, terms):
                for axis, extent in enumerate(sizes):
                    result[:, EXTENTS + axis] = extent
                origin = transform.source_map(terms)
                if origin is not None:
                    _warp(result, layout, square(origin))
            case _:
                pass
    return result


def square(matrices: Any) -> NDArray[np.float64]:
    """Matrices of six or nine numbers as (rows, 3, 3)."""
    flat = np.asarray(matrices, np.float64)
    if flat.shape[1] == 6:
        flat = np.concatenate([flat, np.broadcast_to([0.0, 0.0, 1.0], (len(flat), 3))], axis=1)
    return flat.reshape(-1, 3, 3)


def _scale(geometry: Geometry, layout: str, axis: int, factor: Any, offset: Any, extent: Any) -> None:
    """Places along an axis times a factor, plus an offset; what leaves the new extent is no longer covered."""
    geometry[:, EXTENTS + axis] = extent
    if layout[axis] not in "HW":
        return
    row = 0 if layout[axis] == "W" else 1
    matrix = geometry[:, :9].reshape(-1, 3, 3)
    matrix[:, row] = matrix[:, row] * np.reshape(factor, (-1, 1)) + matrix[:, 2] * np.reshape(offset, (-1, 1))
    geometry[:, :9] = matrix.reshape(-1, 9)
    first, last = 12 - row, 14 - row
    ends = geometry[:, first] * factor + offset, geometry[:, last] * factor + offset
    geometry[:, first] = np.clip(np.minimum(*ends), 0, extent)
    geometry[:, last] = np.clip(np.maximum(*ends), 0, extent)


def _warp(geometry: Geometry, layout: str, origin: NDArray[np.float64]) -> None:
    """Places where the inverse of a matrix says. What is covered then is no rectangle: the one around it counts."""
    try:
        forward = np.linalg.inv(origin)
    except np.linalg.LinAlgError:
        raise ValueError("a matrix without an inverse moves the pixels: nothing can follow them") from None
    top, left, bottom, right = geometry[:, 11:15].T
    corners = np.stack([[left, right, left, right], [top, top, bottom, bottom], np.ones((4, len(top)))])
    x, y, w = np.moveaxis(forward @ np.moveaxis(corners, 2, 0), 1, 0)
    behind = (w <= 0).any(axis=1)  # a part of the image is on the other side of the horizon
    w = np.where(w > 0, w, 1.0)
    for places, letter, first, last in ((y / w, "H", 11, 13), (x / w, "W", 12, 14)):
        extent = geometry[:, EXTENTS + layout.index(letter)]
        geometry[:, first] = np.where(behind, 0.0, np.clip(places.min(axis=1), 0, extent))
        geometry[:, last] = np.where(behind, extent, np.clip(places.max(axis=1), 0, extent))
    geometry[:, :9] = (forward @ geometry[:, :9].reshape(-1, 3, 3)).reshape(-1, 9)


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
