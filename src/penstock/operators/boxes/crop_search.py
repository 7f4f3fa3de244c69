"""The search for a random window that shows enough of the boxes in it."""

from __future__ import annotations

from penstock.core.columns import Array
from penstock.native.compiled import Compiled, precompile
from penstock.numerics.splitmix64 import below, fraction

PATIENCE = 100_000
"""How many windows are tried where the user sets no limit."""


@Compiled
def draw_shape(state: Array, scaling: Array, ratios: Array, sizes: Array, shape: Array) -> bool:
    """Draw the extents of a window, relative to the image.

    Where least and greatest ratio of two axes are the same, one extent follows from the other, and the greatest of all
    stays what it was. A window that leaves the image shrinks until it fits.

    Args:
        state: of the generator.
        scaling: the least and the greatest extent.
        ratios: (pairs of axes, 2), the least and the greatest ratio of the first extent to the second.
        sizes: of the image; ones where ratios are relative, too.
        shape: receives the extents.

    Returns:
        Whether their ratios are allowed.
    """
    ndim, largest = shape.shape[0], 0.0
    for d in range(ndim):
        shape[d] = (scaling[0] + (scaling[1] - scaling[0]) * fraction(state)) * sizes[d]
        largest = max(largest, shape[d])
    turned, pair = fraction(state) < 0.5, 0
    for i in range(ndim):
        for j in range(i + 1, ndim):
            least, most = ratios[pair % ratios.shape[0]]
            if least == most:
                if turned:
                    shape[i] = shape[j] * least
                else:
                    shape[j] = shape[i] / least
            pair += 1
    scale = 0.0
    for d in range(ndim):
        scale = max(scale, shape[d])
    scale = largest / scale if scale > 0 else 1.0
    beyond = 1.0
    for d in range(ndim):
        shape[d] *= scale
        beyond = max(beyond, shape[d] / sizes[d])
    fits, pair = True, 0
    for i in range(ndim):
        for j in range(i + 1, ndim):
            least, most = ratios[pair % ratios.shape[0]]
            ratio = shape[i] / shape[j] if shape[j] > 0 else 0.0
            fits = fits and least * (1 - 1e-6) <= ratio <= most * (1 + 1e-6)
            pair += 1
    for d in range(ndim):
        shape[d] /= sizes[d] * beyond
    return fits


@Compiled
def shared(box: Array, window: Array) -> tuple[float, float, float]:
    """The volumes of what two boxes share, of the first and of the second; each is low corner, high corner."""
    ndim = window.shape[0] // 2
    both, first, second = 1.0, 1.0, 1.0
    for d in range(ndim):
        both *= max(0.0, min(box[ndim + d], window[ndim + d]) - max(box[d], window[d]))
        first *= box[ndim + d] - box[d]
        second *= window[ndim + d] - window[d]
    return both, first, second


@Compiled
def is_kept(box: Array, window: Array, prune: float) -> bool:
    """Whether a box belongs to a window: its centre is inside, or the part `prune` of it, unless that is negative."""
    ndim = window.shape[0] // 2
    if prune >= 0:
        both, own, _ = shared(box, window)
        return both > 0 and both >= prune * own
    inside = True
    for d in range(ndim):
        inside = inside and window[d] <= (box[d] + box[ndim + d]) / 2 <= window[ndim + d]
    return inside


@Compiled
def overlap_of(boxes: Array, window: Array, relative: bool, every: bool) -> float:
    """How well a window shows boxes: the least of all of them, or the greatest.

    Args:
        boxes: (n, 2 * axes).
        window: (2 * axes,).
        relative: whether to the box's own volume; else to that of both together.
        every: whether the least counts.
    """
    result = 1.0 if every or boxes.shape[0] == 0 else 0.0
    for n in range(boxes.shape[0]):
        both, own, other = shared(boxes[n], window)
        whole = own if relative else own + other - both
        part = both / whole if whole > 0 else 0.0
        result = min(result, part) if every else max(result, part)
    return result


@Compiled
def whole(window: Array, keep: Array) -> int:
    """Take the whole image, and all boxes. Returns 2."""
    ndim = window.shape[0] // 2
    for d in range(ndim):
        window[d], window[ndim + d] = 0.0, 1.0
    for n in range(keep.shape[0]):
        keep[n] = True
    return 2


@Compiled
def draw_window(
    state: Array, limits: Array, ratios: Array, sizes: Array, fixed: Array, shape: Array, candidate: Array
) -> bool:
    """Draw a window; the arguments are those of `find`. Returns whether its shape is allowed."""
    ndim = sizes.shape[0]
    if fixed.shape[0] > 0:
        for d in range(ndim):
            room = int(sizes[d] - fixed[d])
            place = below(state, abs(room) + 1)  # a window that is larger than the image has it somewhere inside
            candidate[d] = (place if room >= 0 else -place) / sizes[d]
            candidate[ndim + d] = candidate[d] + fixed[d] / sizes[d]
        return True
    allowed = draw_shape(state, limits, ratios, sizes, shape)
    for d in range(ndim):
        candidate[d] = fraction(state) * (1.0 - shape[d])
        candidate[ndim + d] = candidate[d] + shape[d]
    return allowed


@Compiled
def accept_window(boxes: Array, candidate: Array, prune: float, window: Array, keep: Array) -> None:
    """Take a window, and the boxes in it."""
    for k in range(window.shape[0]):
        window[k] = candidate[k]
    for n in range(boxes.shape[0]):
        keep[n] = is_kept(boxes[n], candidate, prune)


@Compiled
def some_stay(boxes: Array, candidate: Array, prune: float) -> bool:
    """Whether there is a box in a window, or none at all."""
    result = boxes.shape[0] == 0
    for n in range(boxes.shape[0]):
        result = result or is_kept(boxes[n], candidate, prune)
    return result


@Compiled
def search_window(
    boxes: Array,
    state: Array,
    thresholds: Array,
    limits: Array,
    ratios: Array,
    sizes: Array,
    fixed: Array,
    counts: Array,
    relative: bool,
    every: bool,
    prune: float,
    scratch: Array,
    window: Array,
    keep: Array,
) -> int:
    """Search for a window of one image; the arguments are those of `find_each`, without the axis of rows.

    Returns:
        2 for the whole image, 1 for a window, 0 for the best one where none fits.
    """
    ndim, tries, best = sizes.shape[0], 0, -1.0
    candidate, shape = scratch[: 2 * ndim], scratch[2 * ndim :]
    whole(window, keep)
    while tries < counts[1]:
        threshold = thresholds[below(state, thresholds.shape[0])]
        if threshold < 0:
            return whole(window, keep)
        for _ in range(min(counts[0], counts[1] - tries)):
            tries += 1
            if not draw_window(state, limits, ratios, sizes, fixed, shape, candidate):
                continue
            overlap = overlap_of(boxes, candidate, relative, every)
            enough = overlap >= threshold and some_stay(boxes, candidate, prune)
            if overlap > best or enough:
                best = overlap
                accept_window(boxes, candidate, prune, window, keep)
            if enough:
                return 1
    return 0


@precompile("f8[2] i8[1] u8[1] f8[1] f8[1] f8[2] f8[2] f8[2] i8[1] b1 b1 f8 f8[1] f8[2] b1[1] i8[1]")
@Compiled
def search_windows(
    boxes: Array,
    entries: Array,
    states: Array,
    thresholds: Array,
    limits: Array,
    ratios: Array,
    sizes: Array,
    fixed: Array,
    counts: Array,
    relative: bool,
    every: bool,
    prune: float,
    scratch: Array,
    windows: Array,
    keep: Array,
    found: Array,
) -> None:
    """Search for a window of each image.

    Args:
        boxes: float64 (n, 2 * axes), low corner, high corner, relative to the image; of one image after the other.
        entries: int64 (rows,): how many boxes each has.
        states: uint64 (rows,), of the generators.
        thresholds: float64, the overlap that a window must have, one of which is drawn; -1 for the whole image.
        limits: the least and the greatest extent of a window.
        ratios: float64 (pairs of axes, 2).
        sizes: float64 (rows, axes), of the images; ones where they are not known.
        fixed: float64 (rows, axes), the sizes of the windows in pixels; (rows, 0) where they are drawn.
        counts: int64 (2,): attempts per threshold, and in all.
        relative: as for `overlap_of`.
        every: likewise.
        prune: as for `stays`.
        scratch: float64 (3 * axes,).
        windows: float64 (rows, 2 * axes), receives low and high corner, relative to the image.
        keep: bool (n,), receives which boxes are in them.
        found: int64 (rows,), receives what `find` returns.
    """
    first = 0
    for row in range(entries.shape[0]):
        last = first + entries[row]
        found[row] = search_window(
            boxes[first:last],
            states[row : row + 1],
            thresholds,
            limits,
            ratios,
            sizes[row],
            fixed[row],
            counts,
            relative,
            every,
            prune,
            scratch,
            windows[row],
            keep[first:last],
        )
        first = last
