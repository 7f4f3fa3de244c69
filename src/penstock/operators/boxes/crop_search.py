"""Search for a random window that overlaps boxes enough, for `fn.random_bbox_crop`."""

from penstock.core import Array
from penstock.native.compiled import Compiled, precompile
from penstock.numerics.splitmix64 import below, fraction

# Windows to try if the user sets no limit.
MAX_ATTEMPTS = 100_000


@Compiled
def draw_shape(state: Array, scaling: Array, ratios: Array, sizes: Array, shape: Array) -> bool:
    """Draw the extents of a window, relative to the image.

    If the range of a ratio is one value, one extent is computed from the other, and the largest extent is kept. A
    window that exceeds the image shrinks until it fits.

    Args:
        state: State of the generator.
        scaling: Smallest and largest extent.
        ratios: (pairs of axes, 2), smallest and largest ratio of the first extent to the second.
        sizes: Extents of the image; ones if ratios are relative.
        shape: Receives the extents.

    Returns:
        True if all ratios are in range.
    """
    ndim, largest = shape.shape[0], 0.0
    for d in range(ndim):
        shape[d] = (scaling[0] + (scaling[1] - scaling[0]) * fraction(state)) * sizes[d]
        largest = max(largest, shape[d])
    # A fixed aspect ratio determines one side from the other. A random bit per window chooses which.
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
            # The tolerance accepts extents computed from a fixed ratio, despite rounding.
            fits = fits and least * (1 - 1e-6) <= ratio <= most * (1 + 1e-6)
            pair += 1
    # Rescale to the image, and shrink if one extent exceeds it.
    for d in range(ndim):
        shape[d] /= sizes[d] * beyond
    return fits


@Compiled
def intersection_volumes(box: Array, window: Array) -> tuple[float, float, float]:
    """Return the volumes of the intersection, the first and the second of two boxes (low corner, high corner)."""
    ndim = window.shape[0] // 2
    both, first, second = 1.0, 1.0, 1.0
    for d in range(ndim):
        both *= max(0.0, min(box[ndim + d], window[ndim + d]) - max(box[d], window[d]))
        first *= box[ndim + d] - box[d]
        second *= window[ndim + d] - window[d]
    return both, first, second


@Compiled
def is_kept(box: Array, window: Array, prune: float) -> bool:
    """Return True if the fraction `prune` of a box is in a window, or its center for a negative `prune`."""
    ndim = window.shape[0] // 2
    if prune >= 0:
        both, own, _ = intersection_volumes(box, window)
        return both > 0 and both >= prune * own
    inside = True
    for d in range(ndim):
        inside = inside and window[d] <= (box[d] + box[ndim + d]) / 2 <= window[ndim + d]
    return inside


@Compiled
def overlap_of(boxes: Array, window: Array, relative: bool, every: bool) -> float:
    """Return the smallest or largest overlap of a window with boxes.

    Args:
        boxes: (n, 2 * axes).
        window: (2 * axes,).
        relative: If True, overlap is a fraction of the box; otherwise IoU.
        every: If True, return the smallest overlap; otherwise the largest.
    """
    result = 1.0 if every or boxes.shape[0] == 0 else 0.0
    for n in range(boxes.shape[0]):
        both, own, other = intersection_volumes(boxes[n], window)
        whole = own if relative else own + other - both
        part = both / whole if whole > 0 else 0.0
        result = min(result, part) if every else max(result, part)
    return result


@Compiled
def whole(window: Array, keep: Array) -> int:
    """Use the whole image and all boxes. Returns 2."""
    ndim = window.shape[0] // 2
    window[:ndim], window[ndim:], keep[:] = 0.0, 1.0, True
    return 2


@Compiled
def draw_window(
    state: Array, limits: Array, ratios: Array, sizes: Array, fixed: Array, shape: Array, candidate: Array
) -> bool:
    """Draw a window, with the arguments of `search_windows`. Returns True if its aspect ratios are in range."""
    ndim = sizes.shape[0]
    if fixed.shape[0] > 0:
        for d in range(ndim):
            room = int(sizes[d] - fixed[d])
            place = below(state, abs(room) + 1)  # a window larger than the image starts before it
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
    """Use a window and the boxes in it."""
    # numba does not compile `window[:] = candidate` in these loops.
    for k in range(window.shape[0]):
        window[k] = candidate[k]
    for n in range(boxes.shape[0]):
        keep[n] = is_kept(boxes[n], candidate, prune)


@Compiled
def contains_box(boxes: Array, candidate: Array, prune: float) -> bool:
    """Return True if a window contains a box, or there are no boxes."""
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
    """Search for a window of one image, with the arguments of `search_windows` without the axis of rows.

    This is a function of its own because the code is 15% slower inside the loop over images.

    Returns:
        2 for the whole image, 1 for a window, 0 for the best window if none reaches the threshold.
    """
    ndim, tries, best = sizes.shape[0], 0, -1.0
    candidate, shape = scratch[: 2 * ndim], scratch[2 * ndim :]
    # The whole image is the result if no window has valid ratios.
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
            enough = overlap >= threshold and contains_box(boxes, candidate, prune)
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
    outcomes: Array,
) -> None:
    """Search for a window of each image.

    Args:
        boxes: float64 (n, 2 * axes), low and high corners relative to the image; concatenated over images.
        entries: int64 (rows,), number of boxes per image.
        states: uint64 (rows,), states of the generators.
        thresholds: float64, overlaps from which one is drawn per round of attempts; -1 for the whole image.
        limits: Smallest and largest extent of a window.
        ratios: float64 (pairs of axes, 2).
        sizes: float64 (rows, axes), extents of the images; ones if unknown.
        fixed: float64 (rows, axes), extents of the windows in pixels; (rows, 0) to draw them.
        counts: int64 (2,), attempts per threshold, and in total.
        relative: Passed to `overlap_of`.
        every: Passed to `overlap_of`.
        prune: Passed to `is_kept`.
        scratch: float64 (3 * axes,), scratch memory.
        windows: float64 (rows, 2 * axes), receives low and high corners relative to the image.
        keep: bool (n,), receives True for boxes in their window.
        outcomes: int64 (rows,), receives the results of `search_window`.
    """
    first = 0
    for row in range(entries.shape[0]):
        last = first + entries[row]
        outcomes[row] = search_window(
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
