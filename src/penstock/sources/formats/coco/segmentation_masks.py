"""Object outlines of COCO (polygons or run lengths), and their pixels. Needs the extra `coco`.

Run lengths alternate between pixels outside and inside, along the columns of the image. They are compressed to text as
in ``rleToString`` of COCO's API: https://github.com/cocodataset/cocoapi/blob/master/common/maskApi.c
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from penstock.core import Array, optional_import

# Largest valid coordinate: drawing a polygon through a point far outside takes minutes.
_FARTHEST = 1 << 16

# Largest image in pixels; bounds the memory that damaged annotations can request.
_LARGEST = 1 << 28


@dataclass(frozen=True)
class Segmentation:
    """Outline of an object.

    Args:
        polygons: Polygons, each as alternating x and y.
        runs: Run lengths, as a list or compressed; None if the polygons apply.
    """

    polygons: Sequence[Sequence[float]] = ()
    runs: Any = None


def parse_segmentation(segmentation: Any) -> Segmentation:
    """Parse the outline of an object. Run lengths are checked when they are drawn.

    Raises:
        ValueError, TypeError, KeyError: The outline is invalid.
    """
    if isinstance(segmentation, dict):
        runs = cast(dict[str, Any], segmentation)["counts"]
        if not isinstance(runs, str | list):
            raise TypeError(f"run lengths {runs!r}")
        return Segmentation(runs=runs)
    polygons = cast(list[list[float]], segmentation or [])
    for polygon in polygons:
        points = np.asarray(polygon, np.float64)
        if points.ndim != 1 or len(points) % 2 or not (np.abs(points) <= _FARTHEST).all():
            raise ValueError("an invalid polygon: expected alternating x and y, each within 65,536 pixels")
    # Fewer than three points have no area. pycocotools would take four numbers for a box.
    return Segmentation([polygon for polygon in polygons if len(polygon) >= 6])


def class_map(objects: Sequence[tuple[int, Segmentation]], height: int, width: int) -> Array:
    """Return the class of each pixel: the largest class where objects overlap, 0 outside of objects.

    Args:
        objects: Class and outline of each object.
        height: Height of the image in pixels.
        width: Width of the image in pixels.

    Returns:
        int32 of shape (height, width, 1).

    Raises:
        ValueError: Run lengths are damaged or do not match the image size; or the size is invalid.
    """
    if not (height > 0 < width and height * width <= _LARGEST):
        raise ValueError(f"a size of {height} x {width} pixels")
    pixels = np.zeros((height, width, 1), np.int32)
    # Later objects overwrite earlier ones, so the largest class wins.
    for number, outline in sorted(objects, key=lambda item: item[0]):
        pixels[_inside(outline, height, width)] = number
    return pixels


def _inside(outline: Segmentation, height: int, width: int) -> Array:
    """Return a mask of the pixels inside: bool of shape (height, width)."""
    if outline.runs is None and not outline.polygons:
        return np.zeros((height, width), bool)
    runs = _drawn(outline.polygons, height, width) if outline.runs is None else outline.runs
    counts, pixels = np.asarray(run_lengths(runs)), height * width
    # The sum of run lengths that are not checked one by one can overflow to the number of pixels.
    limited = counts.ndim == 1 and counts.dtype.kind in "iu" and ((counts >= 0) & (counts <= pixels)).all()
    if not limited or counts.sum() != pixels:
        raise ValueError(f"run lengths that do not cover {height} x {width} pixels")
    return np.repeat(np.arange(len(counts)) % 2 == 1, counts.astype(np.int64)).reshape(width, height).T


def _drawn(polygons: Sequence[Sequence[float]], height: int, width: int) -> str:
    """Return the compressed run lengths of the union of polygons."""
    library = optional_import.import_extra("pycocotools.mask", "coco", "the pixels inside of polygons")
    merged: dict[str, Any] = library.merge(library.frPyObjects(list(polygons), height, width))
    return merged["counts"].decode()


def run_lengths(runs: str | list[int]) -> list[int]:
    """Return run lengths as a list, decompressed if necessary.

    Compressed ones have five bits per character, lowest first. From the fourth run on, a value is the difference to the
    run before the last one.

    Raises:
        ValueError: They are damaged.
    """
    if not isinstance(runs, str):
        return runs
    result: list[int] = []
    value = shift = 0
    for character in runs:
        code = ord(character) - 48
        # More than eight characters per value would exceed any image; this bounds the integers that damaged text can
        # build.
        if not 0 <= code < 64 or shift > 35:
            raise ValueError("damaged run lengths")
        value |= (code & 31) << shift
        shift += 5
        if code & 32:  # more follows
            continue
        if code & 16:  # its sign
            value -= 1 << shift
        result.append(value + result[-2] if len(result) > 2 else value)
        value = shift = 0
    return result
