"""Regions of images, and how they are put on canvases."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.core.columns import Array
from penstock.image.kernels.copy_windows import copy_windows
from penstock.numerics.casting import cast_saturating

_FEW = 16
"""Of more regions nobody asks whether they cover a canvas."""


def one_size(sizes: Sequence[Any]) -> Array:
    """The size that all images have.

    Raises:
        ValueError: they differ.
    """
    if len({tuple(map(int, each)) for each in sizes}) > 1:
        raise ValueError(f"images of sizes {', '.join(map(str, sizes))} need a canvas: output_size=(height, width)")
    return np.asarray(sizes[0], np.int32)


def regions(xp: Any, sizes: Sequence[Any], canvas: Any, arguments: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Where regions begin in the images, how large they are, and where they go: int32 (rows or 1, regions, 2).

    Of what is relative anchors are rounded down, and sizes up.

    Args:
        xp: the array namespace.
        sizes: height and width of each region's image.
        canvas: height and width.
        arguments: with an entry per row.

    Raises:
        ValueError: there is another number of them than of images.
    """
    own = np.stack(sizes)[None] if sizes else np.zeros((1, 0, 2), np.int32)

    def given(name: str, whole: Any, rounded: Any, default: Any) -> Any:
        if name in arguments:
            found = arguments[name]
        elif f"{name}_rel" in arguments:
            found = rounded(arguments[f"{name}_rel"] * whole.astype(np.float32)).astype(np.int32)
        else:
            return default
        if found.shape[1] != own.shape[1]:
            raise ValueError(f"{name} has {found.shape[1]} pairs of numbers for {own.shape[1]} regions")
        return found

    first = given("in_anchors", own, xp.floor, np.zeros_like(own))
    shape = given("shapes", own, xp.ceil, own - first)
    return first, shape, given("out_anchors", np.asarray(canvas), xp.floor, np.zeros_like(own))


def covers_canvas(places: Sequence[Any], canvas: Any) -> bool:
    """Whether a few regions, as `regions` gives them, leave nothing of a canvas: as large as it, and none overlap."""
    _, shape, to = places
    if shape.shape[1] > _FEW or (shape.prod(axis=2).sum(axis=1) != canvas[0] * canvas[1]).any():
        return False
    low, high = (np.maximum(at[:, :, None], at[:, None]) for at in (to, -to - shape))
    return bool(((low < -high).all(axis=3).sum(axis=(1, 2)) == shape.shape[1]).all())  # each with itself


def paste_regions(images: Array, ids: Array, places: Sequence[Any], canvases: Array, first: int = 0) -> None:
    """Put regions on canvases, one over the other.

    Args:
        images: (n, ..., height, width, channels).
        ids: which of them each region is of, (rows or 1, regions).
        places: as `regions` gives them.
        canvases: where they go, (rows, ..., height, width, channels).
        first: the number of the first region, for messages.

    Raises:
        ValueError: a region leaves its image or the canvas, or is of none of the images.
    """
    form = len(canvases), ids.shape[1]
    begin, shape, to = (np.asarray(place, np.int64) for place in places)
    for number in ids[ids >= len(images)].tolist()[:1]:
        raise ValueError(f"in_ids has {number}, and the batch {len(images)} samples, counted from 0")
    for what, at, size in (("image", begin, images.shape[-3:-1]), ("canvas", to, canvases.shape[-3:-1])):
        outside = ((at < 0) | (shape < 0) | (at + shape > size)).any(axis=2)
        for row, number in np.argwhere(outside)[:1].tolist():
            extents, corner = (each[row % len(each), number].tolist() for each in (shape, at))
            raise ValueError(
                f"region {first + number} leaves its {what}: it is {extents} from {corner} on, of {list(size)}"
            )
    source = np.ascontiguousarray(cast_saturating(np, images, canvases.dtype))
    frames, channels = math.prod(canvases.shape[1:-3]), canvases.shape[-1]
    memory = [each.reshape(-1).view(f"u{each.itemsize}") for each in (source, canvases)]
    extents, spans = np.ones((*form, 5), np.int64), np.zeros((math.prod(form), 5, 2), np.int64)
    extents[..., 2], extents[..., 3:] = frames, shape
    extents[..., 4] *= channels
    extents = spans[:, :, 1] = extents.reshape(-1, 5)
    rows = np.arange(len(canvases))[:, None]
    reads, writes = (np.zeros((*form, 6), np.int64) for _ in range(2))
    for place, each, row, at in ((reads, source, ids, begin), (writes, canvases, rows, to)):
        height, width = each.shape[-3:-1]
        line = width * channels
        place[..., 0] = row * (frames * height * line) + (at[..., 0] * line + at[..., 1] * channels)
        place[..., 3:] = height * line, line, 1
    reads, writes = reads.reshape(-1, 6), writes.reshape(-1, 6)
    nothing = np.zeros((1, 1), memory[0].dtype)
    copy_windows(memory[0], reads, spans, nothing, memory[1], writes, extents, 4, np.empty(5, np.int64))


def paste_regions_xla(xp: Any, images: Sequence[Any], shape: tuple[int, ...], places: Sequence[Any], dtype: Any) -> Any:
    """`paste` for a batch, in the device program."""
    result = xp.zeros(shape, dtype)
    lead = (1,) * (len(shape) - 4)
    for number, image in enumerate(images):
        first, size, to = (place[:, number] for place in places)
        inside: Any = True
        moved = image
        for at in range(2):
            line = [1] * len(shape)
            line[-3 + at] = shape[-3 + at]
            index = xp.arange(shape[-3 + at], dtype=np.int32).reshape(line)
            begin, length, offset = (each[:, at].reshape(-1, *lead, 1, 1, 1) for each in (to, size, first - to))
            inside = inside & (index >= begin) & (index < begin + length)
            index = xp.clip(index + offset, 0, image.shape[-3 + at] - 1)
            moved = xp.take_along_axis(moved, index, axis=len(shape) - 3 + at)
        result = xp.where(inside, cast_saturating(xp, moved, dtype), result)
    return result
