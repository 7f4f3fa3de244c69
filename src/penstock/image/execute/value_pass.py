"""The rows executor's passes that compute values: what the compiled loops are given for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.image.describe.axis_mapping import AxisMapping, identity, is_resampled, taps_per_row
from penstock.image.describe.pixel_pass import Pass, directions, offsets
from penstock.image.describe.steps import CastStep, ColorMatrixStep, FillStep, ScaleStep
from penstock.image.kernels.resample_rows import blend, blending, look_up, scratch
from penstock.image.kernels.row_arithmetic import FILL, HALVES_AWAY, HALVES_UP, MIX, SCALE
from penstock.image.kernels.strided_images import StridedImages
from penstock.types import INTERP_LINEAR

_NO_BYTES, _NO_FLOATS = np.empty(0, np.uint8), np.empty(0, np.float32)
BYTE, FLOAT = np.dtype(np.uint8), np.dtype(np.float32)


def computes_values(work: Pass) -> bool:
    """Whether a pass computes the values of rows of one kind, and writes bytes or floats."""
    if work.apply or work.casts_inexactly or not work.computes or work.dtype not in (BYTE, FLOAT):
        return False
    channels = channels_of(work)
    return bool((channels == channels[:1]).all())


class _Step(NamedTuple):
    """How an axis is walked: which one it is of the images, as what; per row from where on, and in which direction."""

    source: int
    role: int | None
    first: Any = None
    direction: Any = None


class ValuePass:
    """A pass that computes values, and writes bytes or floats.

    Args:
        work: what to do.
        target: where the results of all rows go.
    """

    def __init__(self, work: Pass, target: StridedImages) -> None:
        roles = _roles(work)
        self._write = np.zeros((work.rows, 4), np.int64)
        self._write[:, 0] = target.starts
        numbers: list[AxisMapping] = [identity(np.ones(work.rows, np.int32))] * 2
        self._steps: list[_Step] = []
        self._planes: list[tuple[_Step, NDArray[np.int64], NDArray[np.int64]]] = []
        for at, axis in enumerate(work.axes):
            role = roles.get(at)
            if role in (_ROWS, _COLUMNS):
                numbers[role] = axis.numbers
                self._steps.append(_Step(axis.source, role))
            elif role == _CHANNELS and not axis.moved:
                self._steps.append(_Step(axis.source, role))
            else:  # windows and mirroring are steps in memory
                self._steps.append(_Step(axis.source, role, offsets(axis), directions(axis)))
            if role is not None:
                self._write[:, 1 + role] = target.strides[:, at]
            elif (axis.numbers.length != 1).any():
                self._planes.append((self._steps[-1], axis.numbers.length.astype(np.int64), target.strides[:, at]))
        self._codes, self._terms = _program(work, int(channels_of(work)[0]))
        self._rows, self._columns = [each.matrix() for each in numbers]
        self._made = target.values
        self._looks_up = work.input_dtype == BYTE and not work.resampled and not work.mixes
        self._computed, self._taps = np.zeros(work.rows, np.bool_), np.ones(work.rows, np.int64)
        if work.resampled:
            self._computed = is_resampled(numbers[0]) | is_resampled(numbers[1])
            self._taps = np.maximum(*map(taps_per_row, numbers))
        planar = self._terms.shape[3] == 3 and self._made.dtype == FLOAT and (self._write[:, 1 + _COLUMNS] == 1).all()
        self._needs = {
            "to_bytes": self._made.dtype == BYTE,
            "resamples": bool(self._computed.any()),
            "picks": not self._computed.all(),
            "finishes": bool(planar) and self._codes.tolist() == [HALVES_UP, SCALE],
            "linear": all((axis.filters == INTERP_LINEAR).all() for axis in numbers),
        }

    def bind(self, source: StridedImages, some: slice) -> Callable[[int, int], None]:
        """Return a function of (start, stop) that computes these images of the source.

        Args:
            source: where the images are.
            some: which rows of the pass these are.
        """
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
        written = made if made.dtype == BYTE else _NO_BYTES, made if made.dtype == FLOAT else _NO_FLOATS
        rows, columns, computed = numbers
        channels = terms.shape[3]
        if self._looks_up:
            tables = np.empty(257 * channels, np.float32), np.empty(257 * channels, np.uint8)
            call = look_up.bind(
                given, read, rows, columns, self._codes, terms, *tables, *written, made.dtype == BYTE, write
            )
        else:
            if given.dtype not in (BYTE, FLOAT):
                given = given.astype(FLOAT)
            images = given if given.dtype == BYTE else _NO_BYTES, given if given.dtype == FLOAT else _NO_FLOATS
            memory = scratch(rows, columns, int(self._taps[some].max(initial=1)), channels)
            places = read, rows, columns, computed, self._codes, terms
            loop = blend.variant(**blending(from_bytes=given.dtype == BYTE, **self._needs))
            call = loop.bind(*images, *places, *written, write, *memory)
        if not self._planes:
            return call
        ends = np.searchsorted(image, np.arange(len(source.starts) + 1)).tolist()
        return lambda start, stop: call(ends[start], ends[stop])


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


def channels_of(work: Pass) -> NDArray[np.int64]:
    """How many channels each row's image has."""
    channels = next((at for at, role in _roles(work).items() if role == _CHANNELS), None)
    if channels is None:
        return np.ones(max(work.rows, 1), np.int64)
    return work.axes[channels].numbers.length.astype(np.int64)


def _program(work: Pass, channels: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The operations on values, as `lines.colour` takes them."""
    found: list[tuple[int, tuple[Any, Any, Any]]] = []
    dtype = FLOAT if work.resampled else work.input_dtype
    for operation in work.value_ops:
        match operation:
            case ScaleStep(mean, factor, shift):
                if found and _is_product(*found[-1]) and not shift and (np.asarray(factor) == 1).all():
                    found[-1] = SCALE, (*found[-1][1][:2], 0 - mean)  # and a sum: the same numbers at once
                else:
                    found.append((SCALE, (mean, factor, [[shift]])))
                dtype = FLOAT
            case ColorMatrixStep(factors):
                found.append((MIX, (factors[:, :, 0], factors[:, :, 1], factors[:, :, 2])))
                dtype = FLOAT
            case FillStep(values):
                found.append((FILL, (values, [[0]], [[0]])))
            case CastStep(wanted, halves_up):
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
