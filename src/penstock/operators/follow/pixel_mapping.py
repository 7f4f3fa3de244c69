"""Pixel mapping: the geometry of a chain of image operators, as numbers with an entry per row.

The steps that image operators describe determine where pixels move; here they apply to coordinates instead of pixels. A
geometry is float64 (rows, 15 + axes), in these columns:

* 0 to 8: matrix, row by row, from coordinates of the first image to coordinates of the present one. The corner of the
  first pixel has the coordinates (0, 0), its center (0.5, 0.5);
* 9 and 10: height and width of the first image;
* 11 to 14: top, left, bottom and right of the area of the present image that the first image covers;
* the rest: extents of the present image along its axes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.image.describe.steps import CropStep, CustomStep, MirrorStep, ResampleStep, Step, TransposeStep

Geometry = NDArray[np.float64]

# First column of the extents.
EXTENTS = 15


def begin(extents: NDArray[Any], layout: str) -> Geometry:
    """Return the identity geometry of images.

    Args:
        extents: Extents of the images, (rows, axes).
        layout: Layout of the images.
    """
    result = np.zeros((len(extents), EXTENTS + len(layout)))
    result[:, [0, 4, 8]] = 1
    result[:, EXTENTS:] = extents
    result[:, 9:11] = result[:, 13:15] = extents[:, [layout.index("H"), layout.index("W")]]
    return result


def moved(geometry: Geometry, layout: str, steps: Sequence[Step], *, diagonal: bool = False) -> Geometry:
    """Return the geometry after some steps.

    Args:
        geometry: Geometry of the images before the steps.
        layout: Layout of these images.
        steps: Steps of an image operator.
        diagonal: True if its result takes rows for columns.

    Raises:
        ValueError: No matrix describes how a step moves pixels, or the matrix has no inverse.
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
                source = transform.source_map(terms)
                if source is not None:
                    _warp(result, layout, np.asarray(source, np.float64))
            case _:
                pass
    if diagonal:
        # x and y change places: in the rows of the matrix, and in the covered area.
        result[:, [*range(6), *range(11, 15)]] = result[:, [3, 4, 5, 0, 1, 2, 12, 11, 14, 13]]
    return result


def _scale(geometry: Geometry, layout: str, axis: int, factor: Any, offset: Any, extent: Any) -> None:
    """Multiply coordinates along an axis by a factor and add an offset; clip the covered area to the new extent."""
    geometry[:, EXTENTS + axis] = extent
    if layout[axis] not in "HW":
        return
    row = 0 if layout[axis] == "W" else 1
    matrix = geometry[:, :9].reshape(-1, 3, 3)
    matrix[:, row] = matrix[:, row] * np.reshape(factor, (-1, 1)) + matrix[:, 2] * np.reshape(offset, (-1, 1))
    geometry[:, :9] = matrix.reshape(-1, 9)
    first, last = 12 - row, 14 - row
    ends = geometry[:, first] * factor + offset, geometry[:, last] * factor + offset
    # A negative factor, as of a mirror, exchanges the ends.
    geometry[:, first] = np.clip(np.minimum(*ends), 0, extent)
    geometry[:, last] = np.clip(np.maximum(*ends), 0, extent)


def _warp(geometry: Geometry, layout: str, source: NDArray[np.float64]) -> None:
    """Apply the inverse of a matrix from the result to the image. The covered area becomes its bounding box.

    Args:
        geometry: Geometry to change.
        layout: Layout of the images.
        source: Matrices of six or nine numbers, (rows or 1, 6 or 9).
    """
    # A matrix of six numbers lacks its last row.
    last_row = np.broadcast_to([0.0, 0.0, 1.0], (len(source), 3))
    matrices = np.concatenate([source, last_row], axis=1)[:, :9].reshape(-1, 3, 3)
    try:
        forward = np.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        raise ValueError("the matrix that moves the pixels has no inverse, so nothing can follow them") from None
    top, left, bottom, right = geometry[:, 11:15].T
    corners = np.stack([[left, right, left, right], [top, top, bottom, bottom], np.ones((4, len(top)))])
    x, y, w = np.moveaxis(forward @ np.moveaxis(corners, 2, 0), 1, 0)
    # Beyond the horizon of a perspective w is not positive. A corner there has no position, and the area no bounds.
    behind = (w <= 0).any(axis=1)
    w = np.where(w > 0, w, 1.0)
    for places, letter, first, last in ((y / w, "H", 11, 13), (x / w, "W", 12, 14)):
        extent = geometry[:, EXTENTS + layout.index(letter)]
        geometry[:, first] = np.where(behind, 0.0, np.clip(places.min(axis=1), 0, extent))
        geometry[:, last] = np.where(behind, extent, np.clip(places.max(axis=1), 0, extent))
    geometry[:, :9] = (forward @ geometry[:, :9].reshape(-1, 3, 3)).reshape(-1, 9)


def mapped(xp: Any, places: Any, x: Any, y: Any) -> tuple[Any, Any, Any]:
    """Return the new x and y of points, and a mask: False beyond the horizon of a perspective.

    Args:
        xp: Array namespace.
        places: Mapping summary of the images, float32 (rows, 17).
        x: Coordinates in pixels, float32 (rows, n).
        y: The same for y.
    """
    m = [places[:, k, None] for k in range(9)]
    w = m[6] * x + m[7] * y + m[8]
    visible = w > 0
    w = xp.where(visible, w, np.float32(1))
    return (m[0] * x + m[1] * y + m[2]) / w, (m[3] * x + m[4] * y + m[5]) / w, visible


def extents(places: Any, *, first: bool, ratio: bool) -> tuple[Any, Any]:
    """Return the factors that convert coordinates x and y to pixels.

    Args:
        places: Mapping summary of the images, float32 (rows, 17).
        first: True for pixels of the first image, False for the last.
        ratio: True if coordinates are relative to the image; otherwise the factors are 1.
    """
    height, width = (9, 10) if first else (15, 16)
    if not ratio:
        one = places[:, :1] * np.float32(0) + np.float32(1)
        return one, one
    return places[:, width, None], places[:, height, None]
