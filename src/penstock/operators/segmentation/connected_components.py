"""The objects of maps of labels: elements of one label that touch along an axis, and one of them that is drawn."""

from __future__ import annotations

from penstock.core import Array
from penstock.native.compiled import Compiled, precompile

NONE = -(2**63)
"""The key of what is no object."""


@Compiled
def find_root(parents: Array, index: int) -> int:
    """The first element of an object, as far as it is known; the way there becomes shorter."""
    while parents[index] != index:
        parents[index] = parents[parents[index]]
        index = int(parents[index])
    return index


@Compiled
def advance(place: Array, shape: Array, axes: int) -> None:
    """Go to the next line, by its place along the axes before it."""
    for axis in range(axes - 1, -1, -1):
        place[axis] += 1
        if place[axis] < shape[axis]:
            break
        place[axis] = 0


@Compiled
def union(values: Array, begin: int, length: int, step: int, parents: Array) -> None:
    """Make one object of elements of a line and those `step` before them, where their labels are the same."""
    for i in range(begin, begin + length):
        other = i - step
        known = i > begin and values[i] == values[i - 1] and values[other] == values[other - 1]
        if values[i] == values[other] and not known:
            mine, theirs = find_root(parents, i), find_root(parents, other)
            parents[max(mine, theirs)] = min(mine, theirs)


@Compiled
def include(box: Array, place: Array, first: int, end: int, last: int) -> None:
    """Let a box reach around a part of a line."""
    axes = box.shape[0] // 2
    for axis in range(last):
        box[axis] = min(box[axis], place[axis])
        box[axes + axis] = max(box[axes + axis], place[axis] + 1)
    box[last], box[axes + last] = min(box[last], first), max(box[axes + last], end)


@Compiled
def label_components(values: Array, shape: Array, parents: Array, place: Array, firsts: Array, boxes: Array) -> int:
    """Find the objects of one map, in the order of their first elements.

    Args:
        values: its elements.
        shape: int64 (axes,).
        parents: int64 (elements,), overwritten.
        place: int64 (axes,), overwritten.
        firsts: int64 (elements,), receives the first element of each object.
        boxes: int64 (elements, 2 * axes), receives its first corner, and the one behind the last.

    Returns:
        How many there are.
    """
    axes, count = shape.shape[0], 0
    last = axes - 1
    while last > 0 and shape[last] == 1:  # channels, as a rule: a line is longer without them
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
                parents[i] = parents[parents[i]]  # which is the number of its object by now
            if i + 1 == begin + length or values[i] != values[i + 1]:
                include(boxes[parents[i]], place, first - begin, i + 1 - begin, last)
                first = i + 1
        advance(place, shape, last)
    return count


@Compiled
def ordered(keys: Array, order: Array, count: int) -> None:
    """Sort numbers of objects by their keys, and by themselves where these are equal (Shell's way)."""
    gap = 1
    while gap < count:
        gap = 3 * gap + 1
    while gap > 1:
        gap //= 3
        for n in range(gap, count):
            one, to = order[n], n
            while to >= gap and (
                keys[order[to - gap]] > keys[one] or (keys[order[to - gap]] == keys[one] and order[to - gap] > one)
            ):
                order[to] = order[to - gap]
                to -= gap
            order[to] = one


@Compiled
def volume(box: Array) -> int:
    """How many elements a box has."""
    result, axes = 1, box.shape[0] // 2
    for axis in range(axes):
        result *= box[axes + axis] - box[axis]
    return result


@Compiled
def pick_object(order: Array, boxes: Array, largest: int, drawn: float) -> int:
    """One of some objects, in their order; or of the largest ones, by size."""
    if largest == 0 or order.shape[0] == 1:
        return order[int(drawn * order.shape[0])]
    found = 0
    for n in range(int(drawn * min(largest, order.shape[0])) + 1):  # the largest of the rest comes to the front
        at = n
        for k in range(n + 1, order.shape[0]):
            if volume(boxes[order[k]]) > volume(boxes[order[at]]):
                at = k
        found = order[at]
        for k in range(at, n, -1):
            order[k] = order[k - 1]
        order[n] = found
    return found


@Compiled
def wanted(value: int, classes: Array, weights: Array, background: int, chosen: bool) -> int:
    """By what an object is sorted: the place of its label among the classes, or the label; NONE if it is none."""
    if not chosen:
        return value if value != background else NONE
    for k in range(classes.shape[0]):
        if classes[k] == value and weights[k] > 0:
            return k
    return NONE


@Compiled
def class_weight(key: int, classes: Array, weights: Array, chosen: bool) -> float:
    """How probable the class of a key is, relative to the others."""
    result = 1.0
    if chosen:
        for k in range(classes.shape[0]):
            if classes[k] == classes[key] and weights[k] > 0:
                result = weights[k]
    return result


@Compiled
def draw_class(
    keys: Array, order: Array, classes: Array, weights: Array, chosen: bool, drawn: float
) -> tuple[int, int]:
    """The objects of a class, as a part of all objects in their order."""
    first, last, total, until = 0, 0, 0.0, 0.0
    for phase in range(2):  # the sum of all weights, then the class where a part of it is reached
        until, total, last = drawn * total, 0.0, 0
        while last < order.shape[0] and (phase == 0 or total <= until):
            first, last = last, last + 1
            while last < order.shape[0] and keys[order[last]] == keys[order[first]]:
                last += 1
            total += class_weight(keys[order[first]], classes, weights, chosen)
    return first, last


_KINDS = "i8[2] i8[2] f8[2] i8[1] b1 b1 i8 i8[1] f8[1] f8[2] i8[2] i8[2] i8[2] i8[1]"


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
        values: of one map after the other.
        shapes: int64 (rows, axes).
        classes: int64 (rows, n): the labels that are objects, where they are chosen.
        weights: float64 (rows, n): how probable each is.
        backgrounds: int64 (rows,): the label of what is no object, where classes are not chosen.
        chosen: whether classes are.
        alike: whether one is drawn of all objects; else a class first.
        largest: of how many objects, the largest ones; 0 for all.
        least: int64 (axes,): the least size of a box.
        probabilities: float64 (rows,), of an object; else it is the box of everything.
        draws: float64 (rows, 3), from 0 to 1.
        memory: int64 (4, elements) for the largest map; overwritten.
        extents: int64 (elements, 2 * axes); overwritten.
        corners: int64 (rows, 2 * axes), receives the first corner, and the one behind the last.
        labels: int64 (rows,), receives the label; the background's for the box of everything.
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
        found, count = label_components(own, shape, parents, order[:axes], firsts, extents), 0
        for n in range(found):
            keys[n] = wanted(int(own[firsts[n]]), classes[row], weights[row], backgrounds[row], chosen)
            fits = keys[n] != NONE
            for axis in range(axes):
                fits = fits and extents[n, axes + axis] - extents[n, axis] >= least[axis]
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
        one = pick_object(order[first:last], extents, largest, draws[row, 2])
        for k in range(2 * axes):
            corners[row, k] = extents[one, k]
