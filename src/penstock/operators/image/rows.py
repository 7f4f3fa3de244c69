"""The rows executor: passes over images in memory, many rows in one call of a compiled loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.data.source import Array
from penstock.operators.convert import convert
from penstock.operators.image.axis import Numbers, chosen, is_resampled, taps_of_rows, whole
from penstock.operators.image.kernels import blend, look_up, scratch
from penstock.operators.image.lines import FILL, HALVES_AWAY, HALVES_UP, MIX, SCALE
from penstock.operators.image.memory import Memory
from penstock.operators.image.passes import Axis, Pass
from penstock.operators.image.steps import Convert, Fill, Mix, Scale
from penstock.operators.image.windows import copy

_NO_BYTES, _NO_FLOATS = np.empty(0, np.uint8), np.empty(0, np.float32)
_BYTE, _FLOAT = np.dtype(np.uint8), np.dtype(np.float32)


def execute(work: Pass, source: Memory, target: Memory) -> None:
    """Do a pass.

    Args:
        work: what to do.
        source: the images, of dtype `work.reads`.
        target: where the results go, of dtype `work.dtype`.
    """
    if work.apply:
        return work.apply.transform.rows(source, work.given, work.apply.terms, target, work.shapes)
    if not work.computes:
        return _copy(work, source, target)
    channels = _channels(work)
    if (channels != channels[:1]).any():  # one call has one number of channels
        for count in np.unique(channels):
            some = np.flatnonzero(channels == count)
            execute(work.of(some), source.of(some), target.of(some))
        return None
    if not work.closed and work.dtype in (_BYTE, _FLOAT):
        return _Blend(work, target)(slice(None), source)
    shapes = work.shapes
    values: Array = np.empty(int(shapes.prod(axis=1).sum()), work.reads if work.closed else _FLOAT)
    between = Memory.packed(values, shapes)
    if work.closed:
        _copy(Pass(work.axes, work.reads, work.reads, work.channel), source, between)
    else:
        _Blend(work, between)(slice(None), source)
    as_is = [Axis(whole(axis.numbers.length), at, axis.letter) for at, axis in enumerate(work.axes)]
    converted = Memory(convert(np, values, work.dtype), between.starts, between.strides)
    return _copy(Pass(as_is, work.dtype, work.dtype, work.channel), converted, target)


def offsets(axis: Axis) -> NDArray[np.int64]:
    """The first index along an axis, in the order of the result."""
    numbers = axis.numbers
    first = numbers.begin + numbers.start
    return chosen(numbers.mirrored, first + numbers.length - 1, first).astype(np.int64)


def directions(axis: Axis) -> NDArray[np.int64]:
    """1, or -1 where the axis is walked backwards."""
    return np.where(axis.numbers.mirrored, -1, 1)


def _copy(work: Pass, source: Memory, target: Memory) -> None:
    """Move elements as they are."""
    axes, rows = work.axes, work.rows
    lead = max(0, 5 - len(axes))
    places = [np.zeros((rows, 1 + lead + len(axes)), np.int64) for _ in range(2)]
    spans = np.zeros((rows, lead + len(axes), 2), np.int64)
    shape = np.ones((rows, lead + len(axes)), np.int64)
    spans[:, :lead, 1] = 1
    places[0][:, 0], places[1][:, 0] = source.starts, target.starts
    for at, axis in enumerate(axes, start=lead):
        strides = source.strides[:, axis.source]
        places[0][:, 0] += offsets(axis) * strides
        places[0][:, 1 + at] = directions(axis) * strides
        places[1][:, 1 + at] = target.strides[:, at - lead]
        shape[:, at] = axis.numbers.length
        low, high = inside(axis)
        spans[:, at, 0], spans[:, at, 1] = low, high
    fill = next((colour.values for colour in work.colours if isinstance(colour, Fill)), np.zeros((1, 1)))
    channel = next((at for at, axis in enumerate(axes) if axis.source == work.channel), len(axes) - 1)
    values, out = (_as_unsigned(memory.values) for memory in (source, target))
    fill = _as_unsigned(np.ascontiguousarray(np.asarray(fill).astype(work.dtype)))
    channel, last = channel + lead, shape.shape[1] - 1
    if channel == last and _has_fills(fill, shape[:, last]) and _is_one_line(places, spans, shape):
        for place in places:
            place[:, last] = place[:, last + 1]
        spans[:, last - 1] *= shape[:, last:]
        shape[:, last - 1] *= shape[:, last]
        shape[:, last], spans[:, last], channel = 1, (0, 1), last - 1
    if not _is_triples(places, shape) and shape[:, last].max(initial=0) < shape[:, last - 1].max(initial=0):
        # the inner loop takes the longer of the two
        order = [*range(last - 1), last, last - 1]
        places = [place.take([0, *(1 + axis for axis in order)], axis=1) for place in places]
        spans, shape, channel = spans.take(order, axis=1), shape.take(order, axis=1), order.index(channel)
    copy(values, places[0], spans, fill, out, places[1], shape, channel, np.empty(last + 1, np.int64))


def _has_fills(fill: Array, channels: Array) -> bool:
    """Whether there is one value for all channels, or one for each."""
    return fill.shape[1] == 1 or bool((channels == fill.shape[1]).all())


def _is_one_line(places: Sequence[Array], spans: Array, shape: Array) -> bool:
    """Whether the pixels along the axis before the last follow each other in memory, with all of their channels."""
    last = shape.shape[1] - 1
    return bool(
        all((place[:, last] == place[:, last + 1] * shape[:, last]).all() for place in places)
        and (spans[:, last, 0] == 0).all()
        and (spans[:, last, 1] == shape[:, last]).all()
    )


def _is_triples(places: Sequence[Array], shape: Array) -> bool:
    """Whether pixels have three channels side by side in memory, for which `copy` has a loop."""
    return bool((shape[:, -1] == 3).all() and all((place[:, -1] == 1).all() for place in places))


def inside(axis: Axis) -> tuple[Any, Any]:
    """Which of the wanted pixels of an axis lie in the image, in the order of the result: from, to; per row."""
    numbers = axis.numbers
    low = np.minimum(np.maximum(-numbers.start, 0), numbers.length)  # `np.clip` takes three times longer
    high = np.minimum(np.maximum(numbers.end - numbers.begin - numbers.start, low), numbers.length)
    turned = numbers.mirrored
    return chosen(turned, numbers.length - high, low), chosen(turned, numbers.length - low, high)


def _as_unsigned(values: Array) -> Array:
    """The memory as unsigned integers of the same width, so that copying knows four types only."""
    return values.view(f"u{values.dtype.itemsize}") if values.dtype.itemsize <= 8 else values


def prepared(work: Pass, target: Memory) -> Callable[[slice, Memory], None]:
    """A function that does a pass for some rows: given which, and the images of these rows alone.

    What does not depend on where the images lie is computed once for all rows, if they are of one kind.
    """
    channels = _channels(work)
    alike = work.dtype in (_BYTE, _FLOAT) and bool((channels == channels[:1]).all())
    if alike and work.computes and not (work.apply or work.closed):
        return _Blend(work, target)
    return lambda some, source: execute(work.of(some), source, target.of(some))


class _Step(NamedTuple):
    """How an axis is walked: which one it is of the images, as what; per row from where on, and in which direction."""

    source: int
    role: int | None
    first: Any = None
    direction: Any = None


class _Blend:
    """A pass that computes values, and writes bytes or floats.

    Args:
        work: what to do.
        target: where the results of all rows go.
    """

    def __init__(self, work: Pass, target: Memory) -> None:
        roles = _roles(work)
        self._write = np.zeros((work.rows, 4), np.int64)
        self._write[:, 0] = target.starts
        numbers: list[Numbers] = [whole(np.ones(work.rows, np.int32))] * 2
        self._steps: list[_Step] = []
        self._planes: list[tuple[_Step, NDArray[np.int64], NDArray[np.int64]]] = []
        for at, axis in enumerate(work.axes):
            role = roles.get(at)
            if role in (_ROWS, _COLUMNS):
                numbers[role] = axis.numbers
                self._steps.append(_Step(axis.source, role))
            else:  # windows and mirroring are steps in memory
                self._steps.append(_Step(axis.source, role, offsets(axis), directions(axis)))
            if role is not None:
                self._write[:, 1 + role] = target.strides[:, at]
            elif (axis.numbers.length != 1).any():
                self._planes.append((self._steps[-1], axis.numbers.length.astype(np.int64), target.strides[:, at]))
        self._codes, self._terms = _program(work, int(_channels(work)[0]))
        self._rows, self._columns = [each.matrix() for each in numbers]
        self._made = target.values
        self._looks_up = work.reads == _BYTE and not work.resampled and not work.mixes
        self._computed, self._taps = np.zeros(work.rows, np.bool_), np.ones(work.rows, np.int64)
        if work.resampled:
            self._computed = is_resampled(numbers[0]) | is_resampled(numbers[1])
            self._taps = np.maximum(*map(taps_of_rows, numbers))

    def __call__(self, some: slice, source: Memory) -> None:
        """Do it for some rows, whose images are the source."""
        read = np.zeros((len(source.starts), 4), np.int64)
        read[:, 0] = source.starts
        for step in self._steps:
            strides = source.strides[:, step.source]
            if step.first is not None:
                read[:, 0] += step.first[some] * strides
                strides = strides * step.direction[some]
            if step.role is not None:
                read[:, 1 + step.role] = strides
        terms = self._terms if len(self._terms) == 1 else self._terms[some]
        write, *numbers = self._write[some], self._rows[some], self._columns[some], self._computed[some]
        image = np.arange(len(read))
        for step, lengths, distances in self._planes:  # each plane is an image of its own
            counts = lengths[some][image]
            row = np.repeat(np.arange(len(image)), counts)
            plane, image = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts), image[row]
            read, write, *numbers = [each[row] for each in (read, write, *numbers)]
            read[:, 0] += plane * (source.strides[:, step.source] * step.direction[some])[image]
            write[:, 0] += plane * distances[some][image]
            terms = terms if len(terms) == 1 else terms[row]
        given, made = source.values, self._made
        written = made if made.dtype == _BYTE else _NO_BYTES, made if made.dtype == _FLOAT else _NO_FLOATS
        rows, columns, computed = numbers
        to = *written, made.dtype == _BYTE, write
        channels = terms.shape[3]
        if self._looks_up:
            tables = np.empty(257 * channels, np.float32), np.empty(257 * channels, np.uint8)
            return look_up(given, read, rows, columns, self._codes, terms, *tables, *to)
        if given.dtype not in (_BYTE, _FLOAT):
            given = given.astype(_FLOAT)
        images = given if given.dtype == _BYTE else _NO_BYTES, given if given.dtype == _FLOAT else _NO_FLOATS
        memory = scratch(rows, columns, int(self._taps[some].max(initial=1)), channels)
        return blend(*images, given.dtype == _BYTE, read, rows, columns, computed, self._codes, terms, *to, *memory)


_ROWS, _COLUMNS, _CHANNELS = range(3)


def _roles(work: Pass) -> dict[int, int]:
    """Which axes of the result are rows, columns and channels of images; all others count planes.

    Where depth is resampled, it takes the place of the height.
    """
    letters = {axis.letter: at for at, axis in enumerate(work.axes)}
    if "W" not in letters:
        last = len(work.axes) - 1
        return {at: role for at, role in ((last, _COLUMNS), (last - 1, _ROWS)) if at >= 0}
    deep = "D" in letters and work.resampled and bool(is_resampled(work.axes[letters["D"]].numbers).any())
    roles = {"D" if deep else "H": _ROWS, "W": _COLUMNS, "C": _CHANNELS}
    return {letters[letter]: role for letter, role in roles.items() if letter in letters}


def _channels(work: Pass) -> NDArray[np.int64]:
    """How many channels each row's image has."""
    channels = next((at for at, role in _roles(work).items() if role == _CHANNELS), None)
    if channels is None:
        return np.ones(max(work.rows, 1), np.int64)
    return work.axes[channels].numbers.length.astype(np.int64)


def _program(work: Pass, channels: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The operations on values, as `lines.colour` takes them."""
    found: list[tuple[int, tuple[Any, Any, Any]]] = []
    dtype = _FLOAT if work.resampled else work.reads
    for operation in work.colours:
        match operation:
            case Scale(mean, factor, shift):
                if found and _is_product(*found[-1]) and not shift and (np.asarray(factor) == 1).all():
                    found[-1] = SCALE, (*found[-1][1][:2], 0 - mean)  # and a sum: the same numbers at once
                else:
                    found.append((SCALE, (mean, factor, [[shift]])))
                dtype = _FLOAT
            case Mix(factors):
                found.append((MIX, (factors[:, :, 0], factors[:, :, 1], factors[:, :, 2])))
                dtype = _FLOAT
            case Fill(values):
                found.append((FILL, (values, [[0]], [[0]])))
            case Convert(wanted, halves_up):
                if wanted.kind in "iu" and not np.can_cast(dtype, wanted):
                    limits = np.iinfo(wanted)
                    code = HALVES_UP if halves_up else HALVES_AWAY
                    found.append((code, ([[limits.min]], [[limits.max]], [[0]])))
                dtype = wanted
    values = [[_once(term) for term in terms] for _, terms in found]
    rows = max((len(term) for terms in values for term in terms), default=1)
    result = np.zeros((rows, len(found), 3, channels), np.float32)
    for number, terms in enumerate(values):
        for place, term in enumerate(terms):
            result[:, number, place] = term
    return np.array([code for code, _ in found], np.int64), result


def _is_product(code: int, terms: Sequence[Any]) -> bool:
    return code == SCALE and not np.any(terms[2])


def _once(term: Any) -> Any:
    """A term with a single entry, where all rows have the same one: tables are then made once, not per image."""
    return term[:1] if len(term) > 1 and (term == term[:1]).all() else term
