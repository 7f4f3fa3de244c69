"""Passes that compute values: their form for the compiled loops."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array
from penstock.image.describe.axis_mapping import AxisMapping, identity, is_linear, is_resampled, taps_per_row
from penstock.image.describe.pixel_pass import Pass, directions, offsets
from penstock.image.describe.steps import CastStep, ColorMatrixStep, FillStep, ScaleStep
from penstock.image.kernels.resample_rows import blend, blending, look_up, scratch
from penstock.image.kernels.row_arithmetic import FILL, HALVES_AWAY, HALVES_UP, MIX, SCALE
from penstock.image.kernels.strided_images import StridedImages
from penstock.native.compiled import BoundLoop

BYTE, FLOAT = np.dtype(np.uint8), np.dtype(np.float32)


def computes_values(pass_: Pass) -> bool:
    """Return True if the loops for values can run a pass: all rows have one number of channels, uint8 or float32."""
    if pass_.apply or pass_.casts_inexactly or not pass_.computes or pass_.dtype not in (BYTE, FLOAT):
        return False
    channels = channels_of(pass_)
    return bool((channels == channels[:1]).all())


class _Step(NamedTuple):
    """Walk along an axis of the input: its number, its role in the loops, and per row first index and direction."""

    source: int
    role: int | None
    first: Any = None
    direction: Any = None


class ValuePass:
    """Pass that computes values and writes uint8 or float32. It knows no memory, so batches with equal passes share it.

    Args:
        pass_: Pass, for which `computes_values` is True.
    """

    def __init__(self, pass_: Pass) -> None:
        roles = _roles(pass_)
        numbers: list[AxisMapping] = [identity(np.ones(pass_.rows, np.int32))] * 2
        self._steps: list[_Step] = []
        # Axes of the result, by role, and those of planes with their lengths.
        self._places = list(roles.items())
        self._planes: list[tuple[_Step, int, NDArray[np.int64]]] = []
        for at, axis in enumerate(pass_.axes):
            role = roles.get(at)
            if role in (_ROWS, _COLUMNS):
                numbers[role] = axis.numbers
                self._steps.append(_Step(axis.source, role))
            elif role == _CHANNELS and not axis.moved:
                self._steps.append(_Step(axis.source, role))
            else:
                # Windows and mirroring of channels and frames cost nothing: another offset, another stride.
                self._steps.append(_Step(axis.source, role, offsets(axis), directions(axis)))
            if role is None and (axis.numbers.length != 1).any():
                self._planes.append((self._steps[-1], at, axis.numbers.length.astype(np.int64)))
        self._codes, self._terms = _program(pass_, int(channels_of(pass_)[0]))
        self._operations = self._codes.tolist()
        self._rows, self._columns = [mapping.matrix() for mapping in numbers]
        # A byte has 256 values: a table is faster than arithmetic, unless channels are mixed or pixels computed.
        self._looks_up = pass_.input_dtype == BYTE and not pass_.resampled and not pass_.mixes
        self._input_dtype = pass_.input_dtype
        self._computed, self._taps = np.zeros(pass_.rows, np.bool_), np.ones(pass_.rows, np.int64)
        if pass_.resampled:
            self._computed = is_resampled(numbers[0]) | is_resampled(numbers[1])
            self._taps = np.maximum(*map(taps_per_row, numbers))
        self._resamples, self._picks = bool(self._computed.any()), not self._computed.all()
        self._linear = all(map(is_linear, numbers))

    def bind(self, source: StridedImages, target: StridedImages, rows: slice) -> BoundLoop:
        """Return a function of (start, stop) that computes a range of the images of the source.

        It takes other memory in which the images have the places of the source, too, unless it converts their dtype.

        Args:
            source: Images of `rows`.
            target: Memory for the results of all rows of the pass.
            rows: Rows of the pass.
        """
        read: NDArray[Any] = np.zeros((len(source.starts), 4), np.int64)
        write: NDArray[Any] = np.zeros_like(read)
        read[:, 0], write[:, 0] = source.starts, target.starts[rows]
        for step in self._steps:
            strides = source.strides[:, step.source]
            if step.first is not None:
                read[:, 0] += step.first[rows] * strides
                strides = strides * step.direction[rows]
            if step.role is not None:
                read[:, 1 + step.role] = strides
        for at, role in self._places:
            write[:, 1 + role] = target.strides[rows, at]
        terms = self._terms if len(self._terms) == 1 else self._terms[rows]
        numbers = self._rows[rows], self._columns[rows], self._computed[rows]
        image = np.arange(len(read)) if self._planes else np.empty(0, np.int64)
        # Loops know rows, columns and channels. Along other axes, such as frames, each plane becomes an image.
        for step, at, lengths in self._planes:
            counts = lengths[rows][image]
            parent = np.repeat(np.arange(len(image)), counts)
            plane, image = np.arange(len(parent)) - np.repeat(np.cumsum(counts) - counts, counts), image[parent]
            read, write, *numbers = [array[parent] for array in (read, write, *numbers)]
            read[:, 0] += plane * (source.strides[:, step.source] * step.direction[rows])[image]
            write[:, 0] += plane * target.strides[rows, at][image]
            terms = terms if len(terms) == 1 else terms[parent]
        values, results = source.values, target.values
        heights, widths, computed = numbers
        channels = terms.shape[3]
        if self._looks_up:
            table, memory = np.empty(257 * channels, np.float32), np.empty(257 * channels, np.uint8)
            tables = table, memory if results.dtype == BYTE else table, memory
            call = look_up.bind(values, read, heights, widths, self._codes, terms, *tables, results, write)
        else:
            if values.dtype not in (BYTE, FLOAT):
                values = values.astype(FLOAT)
            memory = scratch(heights, widths, int(self._taps[rows].max(initial=1)), channels)
            loop = blend.variant(**self._variant(write, results.dtype))
            call = loop.bind(values, read, heights, widths, computed, self._codes, terms, results, write, *memory)
        if not self._planes:
            return call
        ends = np.searchsorted(image, np.arange(len(source.starts) + 1)).tolist()

        def call_planes(first: int, last: int, memory: Array | None = None) -> None:
            call(ends[first], ends[last], memory)

        return call_planes

    def _variant(self, write: NDArray[np.int64], dtype: np.dtype[Any]) -> dict[str, bool]:
        """Return the constants of the variant of `blend` that does no more than the rows need."""
        planar = self._terms.shape[3] == 3 and dtype == FLOAT and bool((write[:, 1 + _COLUMNS] == 1).all())
        return blending(
            resamples=self._resamples,
            picks=self._picks,
            finishes=planar and self._operations == [HALVES_UP, SCALE],
            linear=self._linear,
            mixes=self._input_dtype == dtype == BYTE and self._operations == [MIX, SCALE, HALVES_AWAY],
        )


def prepare(pass_: Pass) -> ValuePass | None:
    """Return a pass in the form for the loops for values, or None if they cannot run it."""
    return ValuePass(pass_) if computes_values(pass_) else None


_ROWS, _COLUMNS, _CHANNELS = range(3)


def _roles(pass_: Pass) -> dict[int, int]:
    """Return the axes of the result that are rows, columns and channels in the loops. All others count planes."""
    # Loops resample two axes. Depth is resampled in a separate pass, in which it takes the role of the height.
    letters = {axis.letter: at for at, axis in enumerate(pass_.axes)}
    if "W" not in letters:
        last = len(pass_.axes) - 1
        return {at: role for at, role in ((last, _COLUMNS), (last - 1, _ROWS)) if at >= 0}
    deep = "D" in letters and pass_.resampled and bool(is_resampled(pass_.axes[letters["D"]].numbers).any())
    roles = {"D" if deep else "H": _ROWS, "W": _COLUMNS, "C": _CHANNELS}
    return {letters[letter]: role for letter, role in roles.items() if letter in letters}


def channels_of(pass_: Pass) -> NDArray[np.int64]:
    """Return the number of channels of each row."""
    channels = next((at for at, role in _roles(pass_).items() if role == _CHANNELS), None)
    if channels is None:
        return np.ones(max(pass_.rows, 1), np.int64)
    return pass_.axes[channels].numbers.length.astype(np.int64)


def _program(pass_: Pass, channels: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the operations on values as codes and terms, the form that `row_arithmetic.apply_color_ops` takes."""
    program: list[tuple[int, tuple[Any, Any, Any]]] = []
    dtype = FLOAT if pass_.resampled else pass_.input_dtype
    for operation in pass_.value_ops:
        match operation:
            case ScaleStep(mean, factor, shift):
                if program and _is_product(*program[-1]) and not shift and (np.asarray(factor) == 1).all():
                    # (x - a) * b followed by x - c is one multiplication and one addition with the same roundings.
                    program[-1] = SCALE, (*program[-1][1][:2], 0 - mean)
                else:
                    program.append((SCALE, (mean, factor, [[shift]])))
                dtype = FLOAT
            case ColorMatrixStep(factors):
                program.append((MIX, (factors[:, :, 0], factors[:, :, 1], factors[:, :, 2])))
                dtype = FLOAT
            case FillStep(values):
                program.append((FILL, (values, [[0]], [[0]])))
            case CastStep(wanted, halves_up):
                if wanted.kind in "iu" and not np.can_cast(dtype, wanted):
                    limits = np.iinfo(wanted)
                    code = HALVES_UP if halves_up else HALVES_AWAY
                    program.append((code, ([[limits.min]], [[limits.max]], [[0]])))
                dtype = wanted
    values = [[_shared(term) for term in terms] for _, terms in program]
    rows = max((len(term) for terms in values for term in terms), default=1)
    result = np.zeros((rows, len(program), 3, channels), np.float32)
    for number, terms in enumerate(values):
        for place, term in enumerate(terms):
            result[:, number, place] = term
    return np.array([code for code, _ in program], np.int64), result


def _is_product(code: int, terms: Sequence[Any]) -> bool:
    return code == SCALE and not np.any(terms[2])


def _shared(term: Any) -> Any:
    """Return a term with one entry if all rows have the same one: tables are then computed once, not per image."""
    return term[:1] if len(term) > 1 and (term == term[:1]).all() else term
