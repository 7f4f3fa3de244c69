"""Objects' outlines as COCO writes them, polygons or run lengths, and the pixels inside. Needs the extra `coco`.

Run lengths count pixels outside and inside in turns, down the columns of the image. They are compressed to text by the
rule of ``rleToString`` in COCO's API: https://github.com/cocodataset/cocoapi/blob/master/common/maskApi.c
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from penstock.core import optional_import
from penstock.core.columns import Array

_FARTHEST = 1 << 16
"""Points with larger coordinates are no points of an image; polygons through them would be drawn for minutes."""

_LARGEST = 1 << 28
"""Pixels that an image may have."""


@dataclass(frozen=True)
class Segmentation:
    """Where an object is.

    Args:
        polygons: of each the points, x and y in turns.
        runs: run lengths, as a list or compressed; None where polygons tell.
    """

    polygons: Sequence[Sequence[float]] = ()
    runs: Any = None


def parse_segmentation(segmentation: Any) -> Segmentation:
    """What the entry of an object says; run lengths are checked where they are drawn.

    Raises:
        ValueError, TypeError, KeyError: it is no outline.
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
            raise ValueError("a polygon that is no list of x and y, each within 65,536 pixels")
    return Segmentation([polygon for polygon in polygons if len(polygon) >= 6])


def class_map(objects: Sequence[tuple[int, Segmentation]], height: int, width: int) -> Array:
    """The class of each pixel: where objects overlap, the largest number; 0 where none is.

    Args:
        objects: the class and outline of each.
        height: of the image, in pixels.
        width: likewise.

    Returns:
        int32 of shape (height, width, 1).

    Raises:
        ValueError: run lengths are damaged, or of another image; or there is no such image.
    """
    if not (height > 0 < width and height * width <= _LARGEST):
        raise ValueError(f"a size of {height} x {width} pixels")
    pixels = np.zeros((height, width, 1), np.int32)
    for number, outline in sorted(objects, key=lambda each: each[0]):
        pixels[_inside(outline, height, width)] = number
    return pixels


def _inside(outline: Segmentation, height: int, width: int) -> Array:
    """Which pixels are inside: bool of shape (height, width)."""
    if outline.runs is None and not outline.polygons:
        return np.zeros((height, width), bool)
    runs = _drawn(outline.polygons, height, width) if outline.runs is None else outline.runs
    counts = np.asarray(run_lengths(runs))
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any() or counts.sum() != height * width:
        raise ValueError(f"run lengths that do not count {height} x {width} pixels")
    return np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(width, height).T


def _drawn(polygons: Sequence[Sequence[float]], height: int, width: int) -> str:
    """The compressed run lengths of what is inside of any polygon."""
    library = optional_import.import_extra("pycocotools.mask", "coco", "the pixels inside of polygons")
    merged: dict[str, Any] = library.merge(library.frPyObjects(list(polygons), height, width))
    return merged["counts"].decode()


def run_lengths(runs: str | list[int]) -> list[int]:
    """Run lengths as a list, whether they are compressed or not.

    Raises:
        ValueError: they are damaged.
    """
    return _uncompressed(runs) if isinstance(runs, str) else runs


def _uncompressed(text: str) -> list[int]:
    """Run lengths from five bits a character, the lowest first; from the fourth on, each less the one before last."""
    runs: list[int] = []
    value = shift = 0
    for character in text:
        code = ord(character) - 48
        if not 0 <= code < 64 or shift > 35:
            raise ValueError("run lengths that are damaged")
        value |= (code & 31) << shift
        shift += 5
        if code & 32:  # more follows
            continue
        if code & 16:  # its sign
            value -= 1 << shift
        runs.append(value + runs[-2] if len(runs) > 2 else value)
        value = shift = 0
    return runs
