"""Execution of one pass on the host, many rows per call of a compiled loop."""

from collections.abc import Sequence

import numpy as np

from penstock.core import Array
from penstock.image.describe.custom_pass import PassImages
from penstock.image.describe.pixel_pass import Pass, directions, offsets, range_inside
from penstock.image.describe.steps import FillStep
from penstock.image.execute.value_pass import BYTE, FLOAT, ValuePass, channels_of, computes_values, prepare
from penstock.image.kernels.copy_windows import copy_windows
from penstock.image.kernels.strided_images import StridedImages
from penstock.native.compiled import BoundCode
from penstock.numerics.casting import cast_saturating
from penstock.types import is_float


class PassExecutor:
    """Runs one pass, for some rows at a time.

    Args:
        pass_: The pass.
        values: Its form for the loops, from `prepare`.
        target: Memory for the results of all rows of the pass, of dtype `pass_.dtype`.
    """

    def __init__(self, pass_: Pass, values: ValuePass | None, target: StridedImages) -> None:
        self._pass, self._values, self._target = pass_, values, target

    def bind(self, source: StridedImages, rows: slice) -> None:
        """Set the images that `run` reads.

        Args:
            source: Images of `rows`, of dtype `pass_.input_dtype`. Only their places matter before `run`.
            rows: Rows of the pass.
        """
        self._source, self._first = source, rows.start
        # Other dtypes are converted to float32 first, which has to wait until the memory holds the images.
        bindable = self._values and source.values.dtype in (BYTE, FLOAT)
        self._loop = self._values.bind(source, self._target, rows) if self._values and bindable else None

    @property
    def loop(self) -> BoundCode | None:
        """Machine code that writes the results of a range of the bound rows; None if it takes more than that."""
        return self._loop if isinstance(self._loop, BoundCode) else None

    def run(self, rows: slice, memory: Array | None = None) -> None:
        """Write the results of some of the bound rows.

        Args:
            rows: The rows.
            memory: Memory that has their images at the bound places; None for the bound memory.
        """
        first, last = rows.start - self._first, rows.stop - self._first
        if self._loop:
            return self._loop(first, last, memory)
        source = self._source.of(slice(first, last))
        if memory is not None:
            source = StridedImages(memory, source.starts, source.strides)
        if self._values:
            return self._values.bind(source, self._target, rows)(0, last - first)
        return _run_unbound(self._pass.take(rows), source, self._target.of(rows))


def _run_all(pass_: Pass, source: StridedImages, target: StridedImages) -> None:
    executor, rows = PassExecutor(pass_, prepare(pass_), target), slice(0, pass_.rows)
    executor.bind(source, rows)
    executor.run(rows)


def _run_unbound(pass_: Pass, source: StridedImages, target: StridedImages) -> None:
    """Run a pass that is not a single call of the loops for values."""
    if pass_.apply:
        images = PassImages(source, pass_.input_shapes, target, pass_.shapes)
        return pass_.apply.transform.run_host(images, pass_.apply.terms)
    if not pass_.computes:
        return _copy(pass_, source, target)
    channels = channels_of(pass_)
    if (channels != channels[:1]).any():
        # The compiled loops are called with one number of channels.
        for count in np.unique(channels):
            rows = np.flatnonzero(channels == count)
            _run_all(pass_.take(rows), source.of(rows), target.of(rows))
        return None
    if computes_values(pass_):  # these rows have one number of channels, although the batch does not
        return _run_all(pass_, source, target)
    shapes = pass_.shapes
    values: Array = np.empty(int(shapes.prod(axis=1).sum()), pass_.input_dtype if pass_.casts_inexactly else FLOAT)
    between = StridedImages.packed(values, shapes)
    if pass_.casts_inexactly:
        _copy(Pass(pass_.axes, pass_.input_dtype, pass_.input_dtype, pass_.channel), source, between)
    else:
        ValuePass(pass_).bind(source, between, slice(0, pass_.rows))(0, pass_.rows)
    # Casts of dtypes that the loops do not have use NumPy on packed values. A packed target takes
    # them directly; to another one they are copied.
    first = int(target.starts[0])
    if np.array_equal(target.strides, between.strides) and np.array_equal(target.starts - first, between.starts):
        # The assignment rounds floats; an array in between would take as long as the rounding.
        rounds = values.dtype == FLOAT and is_float(pass_.dtype)
        packed = values if rounds else cast_saturating(np, values, pass_.dtype)
        target.values[first : first + len(values)] = packed
        return None
    converted = cast_saturating(np, values, pass_.dtype)
    as_is = Pass.identity(list(shapes.T), [axis.letter for axis in pass_.axes], pass_.dtype)
    return _copy(as_is, StridedImages(converted, between.starts, between.strides), target)


def _copy(pass_: Pass, source: StridedImages, target: StridedImages) -> None:
    """Run a pass that copies elements without changing them."""
    axes, rows = pass_.axes, pass_.rows
    # The compiled loop takes at least five axes; those in front have one element.
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
        low, high = range_inside(axis)
        spans[:, at, 0], spans[:, at, 1] = low, high
    fill = next((step.values for step in pass_.value_ops if isinstance(step, FillStep)), np.zeros((1, 1)))
    channel = next((at for at, axis in enumerate(axes) if axis.source == pass_.channel), len(axes) - 1)
    values, out = (_as_unsigned(memory.values) for memory in (source, target))
    fill = _as_unsigned(np.ascontiguousarray(np.asarray(fill).astype(pass_.dtype)))
    channel, last = channel + lead, shape.shape[1] - 1
    # Pixels that are contiguous with all their channels are copied as one longer line.
    if channel == last and _is_one_line(places, spans, shape):
        for place in places:
            place[:, last] = place[:, last + 1]
        spans[:, last - 1] *= shape[:, last:]
        shape[:, last - 1] *= shape[:, last]
        shape[:, last], spans[:, last], channel = 1, (0, 1), last - 1
    if not _is_triples(places, shape) and shape[:, last].max(initial=0) < shape[:, last - 1].max(initial=0):
        # The inner loop runs along the longer one of the last two axes.
        order = [*range(last - 1), last, last - 1]
        places = [place.take([0, *(1 + axis for axis in order)], axis=1) for place in places]
        spans, shape, channel = spans.take(order, axis=1), shape.take(order, axis=1), order.index(channel)
    copy_windows(values, places[0], spans, fill, out, places[1], shape, channel, np.empty(last + 1, np.int64))


def _is_one_line(places: Sequence[Array], spans: Array, shape: Array) -> bool:
    """Return True if pixels along the axis before the last are contiguous, with all of their channels."""
    last = shape.shape[1] - 1
    return bool(
        all((place[:, last] == place[:, last + 1] * shape[:, last]).all() for place in places)
        and (spans[:, last, 0] == 0).all()
        and (spans[:, last, 1] == shape[:, last]).all()
    )


def _is_triples(places: Sequence[Array], shape: Array) -> bool:
    """Return True if pixels have three contiguous channels, for which `copy_windows` has a loop."""
    return bool((shape[:, -1] == 3).all() and all((place[:, -1] == 1).all() for place in places))


def _as_unsigned(values: Array) -> Array:
    """View values as unsigned integers of the same width, so that the loop is compiled for four dtypes only."""
    return values.view(f"u{values.dtype.itemsize}") if values.dtype.itemsize <= 8 else values
