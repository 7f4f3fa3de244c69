"""Connected components of label maps, and random choice of one.

An object is a set of elements of one label that are connected along axes, not across corners.
"""

from penstock.core import Array
from penstock.native.compiled import Compiled, precompile

# Key of components that are not objects.
NONE = -(2**63)


@Compiled
def find_root(parents: Array, index: int) -> int:
    """Return the root of an element in the union-find forest, and halve the path to it."""
    while parents[index] != index:
        parents[index] = parents[parents[index]]
        index = int(parents[index])
    return index


@Compiled
def advance(place: Array, shape: Array, axes: int) -> None:
    """Advance the position of a line along the first `axes` axes to the next line."""
    for axis in range(axes - 1, -1, -1):
        place[axis] += 1
        if place[axis] < shape[axis]:
            break
        place[axis] = 0


@Compiled
def union(values: Array, begin: int, length: int, step: int, parents: Array) -> None:
    """Merge the components of elements of a line and of those `step` before them, where their labels are equal."""
    for i in range(begin, begin + length):
        other = i - step
        # If both neighbors before are equal, too, the components are merged already.
        known = i > begin and values[i] == values[i - 1] and values[other] == values[other - 1]
        if values[i] == values[other] and not known:
            mine, theirs = find_root(parents, i), find_root(parents, other)
            parents[max(mine, theirs)] = min(mine, theirs)


@Compiled
def include(box: Array, place: Array, first: int, end: int, last: int) -> None:
    """Extend a box to contain a part of a line.

    Args:
        box: Low and high corner.
        place: Position of the line along the axes before `last`.
        first: First element of the part.
        end: The element after its last.
        last: Axis of the line.
    """
    axes = box.shape[0] // 2
    for axis in range(last):
        box[axis] = min(box[axis], place[axis])
        box[axes + axis] = max(box[axes + axis], place[axis] + 1)
    box[last], box[axes + last] = min(box[last], first), max(box[axes + last], end)


@Compiled
def label_components(values: Array, shape: Array, parents: Array, place: Array, firsts: Array, boxes: Array) -> int:
    """Find the components of one map, in the order of their first elements.

    Args:
        values: Elements of the map.
        shape: int64 (axes,).
        parents: int64 (elements,), scratch memory.
        place: int64 (axes,), scratch memory.
        firsts: int64 (elements,), receives the first element of each component.
        boxes: int64 (elements, 2 * axes), receives the low and high corners of the components.

    Returns:
        Number of components.
    """
    axes, count = shape.shape[0], 0
    last = axes - 1
    # A last axis of extent 1 is usually that of channels. Without it lines are longer.
    while last > 0 and shape[last] == 1:
        last -= 1
    length = int(shape[last])
    elements = values.shape[0]
    place[:] = 0
    for begin in range(0, elements, max(length, 1)):
        for i in range(begin, begin + length):
            parents[i] = parents[i - 1] if i > begin and values[i] == values[i - 1] else i
        step = length
        for axis in range(last - 1, -1, -1):
            if place[axis] > 0:
                union(values, begin, length, step, parents)
            step *= int(shape[axis])
        advance(place, shape, last)
    place[:] = 0
    for begin in range(0, elements, max(length, 1)):
        first = begin
        for i in range(begin, begin + length):
            if parents[i] == i:
                firsts[count], parents[i] = i, count
                for axis in range(axes):
                    boxes[count, axis], boxes[count, axes + axis] = (shape[axis], 0) if axis <= last else (0, 1)
                count += 1
            else:
                # The root comes first, so its entry is the number of the component by now.
                parents[i] = parents[parents[i]]
            if i + 1 == begin + length or values[i] != values[i + 1]:
                include(boxes[parents[i]], place, first - begin, i + 1 - begin, last)
                first = i + 1
        advance(place, shape, last)
    return count


@Compiled
def ordered(keys: Array, order: Array, count: int) -> None:
    """Sort numbers of objects by their keys, and equal keys by number."""
    # Shell sort, because compiled loops cannot allocate the memory of np.argsort.
    gap = 1
    while gap < count:
        gap = 3 * gap + 1
    while gap > 1:
        gap //= 3
        for n in range(gap, count):
            item, to = order[n], n
            while to >= gap:
                other = order[to - gap]
                if keys[other] < keys[item] or (keys[other] == keys[item] and other < item):
                    break
                order[to] = other
                to -= gap
            order[to] = item


@Compiled
def volume(box: Array) -> int:
    """Return the number of elements of a box."""
    result, axes = 1, box.shape[0] // 2
    for axis in range(axes):
        result *= box[axes + axis] - box[axis]
    return result


@Compiled
def pick_object(order: Array, boxes: Array, largest: int, fraction: float) -> int:
    """Return a random one of some objects, or of the `largest` largest ones unless that is 0.

    Args:
        order: Numbers of the objects; the largest come to the front.
        boxes: Boxes of all objects.
        largest: Number of objects to choose from.
        fraction: Random number from 0 to 1.
    """
    count = order.shape[0]
    if largest == 0:
        return order[int(fraction * count)]
    picked = order[0]
    # A selection sort up to the drawn position is faster than a full sort, since `largest` is small as a rule.
    for n in range(int(fraction * min(largest, count)) + 1):
        at = n
        for k in range(n + 1, count):
            if volume(boxes[order[k]]) > volume(boxes[order[at]]):
                at = k
        picked = order[at]
        # Shift the others, so that objects of one size keep their order.
        for k in range(at, n, -1):
            order[k] = order[k - 1]
        order[n] = picked
    return picked


@Compiled
def key_of(value: int, classes: Array, weights: Array, background: int, chosen: bool) -> int:
    """Return the key by which an object is sorted: the index of its class if classes are chosen, otherwise its label.

    The key is NONE if the label is not that of an object.
    """
    if not chosen:
        return value if value != background else NONE
    for k in range(classes.shape[0]):
        # A class of weight 0 is never drawn, so its components do not count as objects.
        if classes[k] == value and weights[k] > 0:
            return k
    return NONE


@Compiled
def class_weight(key: int, classes: Array, weights: Array, chosen: bool) -> float:
    """Return the weight of the class of a key, 1 if classes are not chosen."""
    result = 1.0
    if chosen:
        for k in range(classes.shape[0]):
            if classes[k] == classes[key] and weights[k] > 0:
                result = weights[k]
    return result


@Compiled
def draw_class(
    keys: Array, order: Array, classes: Array, weights: Array, chosen: bool, fraction: float
) -> tuple[int, int]:
    """Draw a class. Returns the range of its objects in `order`, which is sorted by class."""
    first, last, total, until = 0, 0, 0.0, 0.0
    # The first phase sums all weights; the second stops at the class where the sum exceeds the drawn part of it.
    for phase in range(2):
        until, total, last = fraction * total, 0.0, 0
        while last < order.shape[0] and (phase == 0 or total <= until):
            first, last = last, last + 1
            while last < order.shape[0] and keys[order[last]] == keys[order[first]]:
                last += 1
            total += class_weight(keys[order[first]], classes, weights, chosen)
    return first, last


_KINDS = "i8[2] i8[2] f8[2] i8[1] b1 b1 i8 i8[2] f8[1] f8[2] i8[2] i8[2] i8[2] i8[1]"


@precompile(*(f"{kind}[1] {_KINDS}" for kind in ("u1", "i4")))
@Compiled
def draw_objects(
    values: Array,
    shapes: Array,
    classes: Array,
    weights: Array,
    backgrounds: Array,
    chosen: bool,
    alike: bool,
    largest: int,
    least: Array,
    probabilities: Array,
    draws: Array,
    memory: Array,
    extents: Array,
    corners: Array,
    labels: Array,
) -> None:
    """Draw an object of each map.

    Args:
        values: Elements of the maps, one map after the other.
        shapes: int64 (rows, axes).
        classes: int64 (rows, n), labels of objects if classes are chosen.
        weights: float64 (rows, n), weights of the classes.
        backgrounds: int64 (rows,), label of the background.
        chosen: True if classes are chosen; otherwise all labels but the background are objects.
        alike: True to draw among all objects; False to draw a class first.
        largest: Number of largest objects to choose from; 0 for all.
        least: int64 (rows, axes), minimum extents of a box.
        probabilities: float64 (rows,), probability of an object; otherwise the result is the whole map.
        draws: float64 (rows, 3), random numbers from 0 to 1.
        memory: int64 (4, elements of the largest map), scratch memory.
        extents: int64 (elements, 2 * axes), scratch memory.
        corners: int64 (rows, 2 * axes), receives low and high corners.
        labels: int64 (rows,), receives the label; that of the background for the whole map.
    """
    start, axes = 0, shapes.shape[1]
    parents, firsts, order, keys = memory[0], memory[1], memory[2], memory[3]
    for row in range(shapes.shape[0]):
        shape, elements = shapes[row], 1
        for axis in range(axes):
            elements *= shape[axis]
            corners[row, axis], corners[row, axes + axis] = 0, shape[axis]
        own = values[start : start + elements]
        start += elements
        labels[row] = backgrounds[row]
        if draws[row, 0] >= probabilities[row]:
            continue
        components, count = label_components(own, shape, parents, order[:axes], firsts, extents), 0
        for n in range(components):
            keys[n] = key_of(int(own[firsts[n]]), classes[row], weights[row], backgrounds[row], chosen)
            fits = keys[n] != NONE
            for axis in range(axes):
                fits = fits and extents[n, axes + axis] - extents[n, axis] >= least[row, axis]
            if fits:
                order[count] = n
                count += 1
        if count == 0:
            continue
        ordered(keys, order, count)
        first, last = 0, count
        if not alike:
            first, last = draw_class(keys, order[:count], classes[row], weights[row], chosen, draws[row, 1])
            labels[row] = int(own[firsts[order[first]]])
        picked = pick_object(order[first:last], extents, largest, draws[row, 2])
        for k in range(2 * axes):
            corners[row, k] = extents[picked, k]
