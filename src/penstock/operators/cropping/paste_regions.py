"""Regions of images that `multi_paste` copies to canvases."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.image.kernels.copy_windows import copy_windows
from penstock.numerics.casting import cast_saturating

# Coverage of a canvas is tested up to this number of regions; the test compares all pairs.
_MAX_COVERING_REGIONS = 16


def one_size(sizes: Sequence[Any]) -> Array:
    """Return the common size of all images.

    Raises:
        ValueError: The sizes differ.
    """
    if len({tuple(map(int, size)) for size in sizes}) > 1:
        raise ValueError(f"images of sizes {', '.join(map(str, sizes))} need a canvas: output_size=(height, width)")
    return np.asarray(sizes[0], np.int32)


def regions(xp: Any, sizes: Sequence[Any], canvas: Any, arguments: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return the anchors in the images, shapes, and anchors on the canvas: int32 (rows or 1, regions, 2) each.

    As in DALI, relative anchors are rounded down and relative shapes up.

    Args:
        xp: Array namespace.
        sizes: Height and width of the image of each region.
        canvas: Height and width of the canvas.
        arguments: Arguments of `multi_paste`, with an entry per row.

    Raises:
        ValueError: An argument does not have one pair of numbers per image.
    """
    own = np.stack(sizes)[None] if sizes else np.zeros((1, 0, 2), np.int32)

    def in_pixels(name: str, extent: Any, rounding: Any, default: Any) -> Any:
        if name in arguments:
            pixels = arguments[name]
        elif f"{name}_rel" in arguments:
            pixels = rounding(arguments[f"{name}_rel"] * extent.astype(np.float32)).astype(np.int32)
        else:
            return default
        if pixels.shape[1] != own.shape[1]:
            raise ValueError(f"{name} has {pixels.shape[1]} pairs of numbers for {own.shape[1]} regions")
        return pixels

    first = in_pixels("in_anchors", own, xp.floor, np.zeros_like(own))
    # By default a region extends from its anchor to the end of its image.
    shape = in_pixels("shapes", own, xp.ceil, own - first)
    return first, shape, in_pixels("out_anchors", np.asarray(canvas), xp.floor, np.zeros_like(own))


def region(places: Sequence[Any], number: int) -> list[Any]:
    """Return one of the regions that `regions` returned, in the same form."""
    return [place[:, number : number + 1] for place in places]


def clear_uncovered(canvases: Array, places: Sequence[Any]) -> None:
    """Fill canvases with zeros, unless regions, as returned by `regions`, cover all of them."""
    # Mosaics cover the whole canvas and save the time to clear it: their areas add up to that of the canvas, and no two
    # of them overlap.
    _, shape, to = places
    area = canvases.shape[-3] * canvases.shape[-2]
    if shape.shape[1] <= _MAX_COVERING_REGIONS and (shape.prod(axis=2).sum(axis=1) == area).all():
        low, high = (np.maximum(at[:, :, None], at[:, None]) for at in (to, -to - shape))
        # Each region overlaps itself, and must overlap no other.
        if ((low < -high).all(axis=3).sum(axis=(1, 2)) == shape.shape[1]).all():
            return
    canvases[...] = 0


def paste_regions(images: Array, ids: Array, places: Sequence[Any], canvases: Array, first: int = 0) -> None:
    """Copy regions to canvases in place; later regions cover earlier ones.

    Args:
        images: (n, ..., height, width, channels).
        ids: Index of the image of each region, (rows or 1, regions).
        places: Result of `regions`.
        canvases: (rows, ..., height, width, channels).
        first: Number of the first region, for messages.

    Raises:
        ValueError: A region exceeds its image or the canvas, or its image does not exist.
    """
    form = len(canvases), ids.shape[1]
    begin, shape, to = (np.asarray(place, np.int64) for place in places)
    for number in ids[ids >= len(images)].tolist()[:1]:
        raise ValueError(f"in_ids contains {number}, but the batch has {len(images)} samples, counted from 0")
    for name, at, size in (("image", begin, images.shape[-3:-1]), ("canvas", to, canvases.shape[-3:-1])):
        outside = ((at < 0) | (shape < 0) | (at + shape > size)).any(axis=2)
        for row, number in np.argwhere(outside)[:1].tolist():
            extents, corner = (values[row % len(values), number].tolist() for values in (shape, at))
            raise ValueError(
                f"region {first + number} exceeds its {name}: shape {extents} at {corner}, {name} of {list(size)}"
            )
    source = np.ascontiguousarray(cast_saturating(np, images, canvases.dtype))
    frames, channels = math.prod(canvases.shape[1:-3]), canvases.shape[-1]
    # The kernel copies bits, so that it is compiled once per item size and not once per dtype.
    memory = [array.reshape(-1).view(f"u{array.itemsize}") for array in (source, canvases)]
    # A region is a window of five axes, the fewest that the kernel takes: 1, 1, frames, height, and width with channels
    # merged, for long lines. All regions of all rows are copied in one call.
    extents, spans = np.ones((*form, 5), np.int64), np.zeros((math.prod(form), 5, 2), np.int64)
    extents[..., 2], extents[..., 3:] = frames, shape
    extents[..., 4] *= channels
    extents = spans[:, :, 1] = extents.reshape(-1, 5)
    rows = np.arange(len(canvases))[:, None]
    reads, writes = (np.zeros((*form, 6), np.int64) for _ in range(2))
    for place, array, row, at in ((reads, source, ids, begin), (writes, canvases, rows, to)):
        height, width = array.shape[-3:-1]
        line = width * channels
        place[..., 0] = row * (frames * height * line) + (at[..., 0] * line + at[..., 1] * channels)
        place[..., 3:] = height * line, line, 1
    reads, writes = reads.reshape(-1, 6), writes.reshape(-1, 6)
    fill = np.zeros((1, 1), memory[0].dtype)
    copy_windows(memory[0], reads, spans, fill, memory[1], writes, extents, 4, np.empty(5, np.int64))


def paste_regions_xla(xp: Any, images: Sequence[Any], shape: tuple[int, ...], places: Sequence[Any], dtype: Any) -> Any:
    """Return canvases for a batch in the XLA program; parts of regions beyond their image or canvas are left out.

    Args:
        xp: `jax.numpy`.
        images: One batch per region, (rows, ..., height, width, channels).
        shape: Shape of the canvases.
        places: Result of `regions`.
        dtype: Dtype of the canvases.
    """
    # Anchors are traced values, so XLA cannot slice with them: each pixel of the canvas gathers its pixel of the
    # region, and a mask selects the pixels inside.
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
            begin, length, offset = (values[:, at].reshape(-1, *lead, 1, 1, 1) for values in (to, size, first - to))
            inside = inside & (index >= begin) & (index < begin + length)
            index = xp.clip(index + offset, 0, image.shape[-3 + at] - 1)
            moved = xp.take_along_axis(moved, index, axis=len(shape) - 3 + at)
        result = xp.where(inside, cast_saturating(xp, moved, dtype), result)
    return result
