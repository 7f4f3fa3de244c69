"""The rows executor: passes over images in memory, many rows in one call of a compiled loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from penstock.core.columns import Array
from penstock.image.describe.axis_mapping import identity
from penstock.image.describe.pixel_pass import Pass, PassAxis, directions, offsets, range_inside
from penstock.image.describe.steps import FillStep
from penstock.image.execute.value_pass import BYTE, FLOAT, ValuePass, channels_of, computes_values
from penstock.image.kernels.copy_windows import copy_windows
from penstock.image.kernels.strided_images import StridedImages
from penstock.numerics.casting import cast_saturating


def run_pass(work: Pass, source: StridedImages, target: StridedImages) -> None:
    """Do a pass.

    Args:
        work: what to do.
        source: the images, of dtype `work.reads`.
        target: where the results go, of dtype `work.dtype`.
    """
    if work.apply:
        return work.apply.transform.run_host(source, work.input_shapes, work.apply.terms, target, work.shapes)
    if not work.computes:
        return _copy(work, source, target)
    channels = channels_of(work)
    if (channels != channels[:1]).any():  # one call has one number of channels
        for count in np.unique(channels):
            some = np.flatnonzero(channels == count)
            run_pass(work.take(some), source.of(some), target.of(some))
        return None
    if not work.casts_inexactly and work.dtype in (BYTE, FLOAT):
        return ValuePass(work, target).bind(source)(slice(0, work.rows))
    shapes = work.shapes
    values: Array = np.empty(int(shapes.prod(axis=1).sum()), work.input_dtype if work.casts_inexactly else FLOAT)
    between = StridedImages.packed(values, shapes)
    if work.casts_inexactly:
        _copy(Pass(work.axes, work.input_dtype, work.input_dtype, work.channel), source, between)
    else:
        ValuePass(work, between).bind(source)(slice(0, work.rows))
    as_is = [PassAxis(identity(axis.numbers.length), at, axis.letter) for at, axis in enumerate(work.axes)]
    converted = StridedImages(cast_saturating(np, values, work.dtype), between.starts, between.strides)
    return _copy(Pass(as_is, work.dtype, work.dtype, work.channel), converted, target)


def _copy(work: Pass, source: StridedImages, target: StridedImages) -> None:
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
        low, high = range_inside(axis)
        spans[:, at, 0], spans[:, at, 1] = low, high
    fill = next((colour.values for colour in work.value_ops if isinstance(colour, FillStep)), np.zeros((1, 1)))
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
    copy_windows(values, places[0], spans, fill, out, places[1], shape, channel, np.empty(last + 1, np.int64))


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


def _as_unsigned(values: Array) -> Array:
    """The memory as unsigned integers of the same width, so that copying knows four types only."""
    return values.view(f"u{values.dtype.itemsize}") if values.dtype.itemsize <= 8 else values


def bind_target(work: Pass, target: StridedImages) -> Callable[[slice, StridedImages], None]:
    """A function that does a pass for some rows: given which, and the images of these rows alone.

    What does not depend on where the images lie is computed once for all rows, if they are of one kind.
    """
    if not computes_values(work):
        return lambda some, source: run_pass(work.take(some), source, target.of(some))
    blended = ValuePass(work, target)
    return lambda some, source: blended.bind(source, some)(slice(0, len(source.starts)))


def bind_pass(work: Pass, source: StridedImages, target: StridedImages) -> Callable[[slice], None]:
    """A function that does a pass for some rows: given which.

    As much as possible is computed once for all rows, where it is known beforehand where all images lie.
    """
    if computes_values(work) and source.values.dtype in (BYTE, FLOAT):
        return ValuePass(work, target).bind(source)
    return lambda some: run_pass(work.take(some), source.of(some), target.of(some))
