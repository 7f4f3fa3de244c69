"""Execution of passes in the device program, on dense batches of images.

Numbers that all rows share are known while the program is traced and become constants; the others are arrays of the
program. The taps of a filter are summed one after another, as on the host. A matrix product would be shorter, but its
order of summation may depend on the number of rows on a device.
"""
# pyright: basic
# JAX is only partly typed.

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from penstock.image.describe.axis_mapping import AxisMapping, identity, is_resampled, most_taps
from penstock.image.describe.pixel_pass import Pass, PassAxis, ValueStep
from penstock.image.describe.steps import CastStep, ColorMatrixStep, FillStep, ScaleStep
from penstock.image.kernels.filter_taps import filter_taps
from penstock.numerics.casting import cast_saturating
from penstock.numerics.ordered_sums import no_fma

if TYPE_CHECKING:
    from penstock.image.execute.canvas_packing import AxisPacking, PassPacking

# Filters with at most this many taps are unrolled; others use a loop, which keeps programs small and compiles faster.
_UNROLLED = 16


def trace_passes(passes: Sequence[Pass], images: Any) -> Any:
    """Execute passes.

    Args:
        passes: Passes. The results of all rows have one shape.
        images: Batch (rows, ...).
    """
    for pass_ in passes:
        if pass_.apply:
            numbers = [axis.numbers for axis in pass_.axes]
            input_shapes = jnp.stack([jnp.asarray(axis.end).astype(np.int32) for axis in numbers], axis=1)
            shapes = jnp.stack([jnp.asarray(axis.length).astype(np.int32) for axis in numbers], axis=1)
            canvas = tuple(int(axis.length[0]) for axis in numbers)
            images = _applied(pass_, images, input_shapes, pass_.apply.terms, shapes, canvas)
        else:
            by_source = sorted(pass_.axes, key=lambda axis: axis.source)
            axes = [partial(_resampled if _resamples(pass_, axis) else _picked, axis) for axis in by_source]
            images = _execute(pass_, images, axes, pass_.value_ops)
    return images


def _resamples(pass_: Pass, axis: PassAxis) -> bool:
    return pass_.resampled and isinstance(axis.numbers.low, np.ndarray) and bool(is_resampled(axis.numbers).any())


def _execute(
    pass_: Pass, images: Any, axes: Sequence[Callable[[Any], tuple[Any, Any]]], value_ops: Sequence[ValueStep]
) -> Any:
    """Execute a pass that is not a custom one.

    Args:
        pass_: Pass.
        images: Batch (rows, ...).
        axes: For each axis of the input, a function that maps the values along it. It also returns a mask of the pixels
            outside of the image, or None if there are none.
        value_ops: Operations on values, with the terms of the rows.
    """
    values, outside = images.astype(np.float32) if pass_.resampled else images, None
    for source, along in enumerate(axes):
        values, beyond = along(values)
        if source in pass_.padded_axes and beyond is not None:
            outside = beyond if outside is None else outside | beyond
    dtype = np.dtype(np.float32) if pass_.resampled else pass_.input_dtype
    for operation in value_ops:
        values, dtype = _apply_value_step(operation, values, dtype, outside, pass_)
    return jnp.transpose(values.astype(pass_.dtype), (0, *(axis.source + 1 for axis in pass_.axes)))


def trace_packed_passes(plans: Sequence[PassPacking], images: Any, numbers: Any) -> Any:
    """Execute passes whose numbers the host has packed (`penstock.image.execute.canvas_packing`).

    Args:
        plans: Layouts of the numbers.
        images: Batch (rows, ...).
        numbers: Float32 (rows, n).
    """
    at = 0

    def take(count: int) -> Any:
        nonlocal at
        at += count
        return numbers[:, at - count : at]

    for plan in plans:
        pass_ = plan.outline
        if pass_.apply:
            input_shapes, shapes, *terms = map(take, plan.applied)
            input_shapes, shapes = input_shapes.astype(np.int32), shapes.astype(np.int32)
            images = _applied(pass_, images, input_shapes, terms, shapes, tuple(axis.length for axis in plan.axes))
            continue
        axes: list[Callable[[Any], tuple[Any, Any]]] = []
        for axis in plan.axes:
            if axis.most:
                first = take(axis.length).astype(np.int32)
                weights = take(axis.length * axis.most).reshape(-1, axis.length, axis.most)
                axes.append(partial(_weighed, axis.source, first, weights))
            elif axis.moved:
                axes.append(partial(_walked, axis, *(take(1).astype(np.int32) for _ in range(4))))
            else:
                axes.append(lambda values: (values, None))
        value_ops = [
            step.with_terms(take(math.prod(term.shape[1:])).reshape(-1, *term.shape[1:]) for term in step.terms)
            for step in pass_.value_ops
        ]
        images = _execute(pass_, images, axes, value_ops)
    return images


def _applied(
    pass_: Pass, images: Any, input_shapes: Any, terms: Sequence[Any], shapes: Any, canvas: tuple[int, ...]
) -> Any:
    """Return the result of a custom pass, in its dtype."""
    assert pass_.apply is not None
    result = pass_.apply.transform.trace_xla(images, input_shapes, terms, shapes, canvas)
    return cast_saturating(jnp, result, pass_.dtype)


def _weighed(at: int, first: Any, weights: Any, values: Any) -> tuple[Any, None]:
    """Resample one axis, with first taps (rows, length) and weights (rows, length, taps)."""
    last, most = values.shape[at + 1] - 1, weights.shape[2]

    def term(k: Any) -> Any:
        index = _along(jnp.minimum(first + k, last), at, values.ndim)
        weight = _along(jax.lax.dynamic_index_in_dim(weights, k, 2, keepdims=False), at, values.ndim)
        picked = jnp.take_along_axis(values, index, axis=at + 1, mode="promise_in_bounds")
        # Pixels beyond an image on a canvas have weight 0, but may be NaN.
        return jnp.where(weight == 0, 0, no_fma(jnp, picked * weight))

    return _sum_terms(most, term), None


def _sum_terms(count: int, term: Callable[[Any], Any]) -> Any:
    """Sum the terms of the numbers below `count`, in this order."""
    if count <= _UNROLLED:
        return reduce(operator.add, map(term, range(count)))
    return jax.lax.fori_loop(1, count, lambda k, total: total + term(k), term(0))


def _walked(axis: AxisPacking, first: Any, direction: Any, low: Any, high: Any, values: Any) -> tuple[Any, Any]:
    """Return the pixels of one axis from the first one in a direction, and a mask of those outside of the image."""
    count = jnp.arange(axis.length, dtype=np.int32)[None, :]
    index = jnp.clip(first + direction * count, 0, values.shape[axis.source + 1] - 1)
    index = _along(index, axis.source, values.ndim)
    picked = jnp.take_along_axis(values, index, axis=axis.source + 1, mode="promise_in_bounds")
    return picked, _along((count < low) | (count >= high), axis.source, values.ndim)


def _along(values: Any, axis: int, ndim: int) -> Any:
    """Reshape (rows, n) or (n,) to broadcast along an axis of a batch."""
    rows = values.shape[:-1] or (1,)
    return values.reshape(*rows, *(values.shape[-1] if at == axis else 1 for at in range(ndim - 1)))


def _picked(axis: PassAxis, values: Any) -> tuple[Any, Any]:
    """Return the window of one axis, and a mask of the pixels outside of the image; None if there are none."""
    numbers, at = axis.numbers, axis.source
    extent, length = values.shape[at + 1], int(numbers.length[0])
    if _static(numbers):
        first, mirrored = int(numbers.begin[0] + numbers.start[0]), bool(numbers.mirrored[0])
        if first == 0 and length == extent and not mirrored:
            return values, None
        if 0 <= first <= extent - length:
            cut = jax.lax.slice_in_dim(values, first, first + length, axis=at + 1)
            return (jnp.flip(cut, at + 1) if mirrored else cut), None
    count = jnp.arange(length, dtype=np.int32)[None, :]
    backwards = jnp.asarray(numbers.mirrored)[:, None]
    index = jnp.where(backwards, length - 1 - count, count) + _column(numbers.begin) + _column(numbers.start)
    beyond = (index < _column(numbers.begin)) | (index >= _column(numbers.end))
    index = jnp.clip(index, 0, extent - 1)
    picked = jnp.take_along_axis(values, _along(index, at, values.ndim), axis=at + 1)
    return picked, _along(beyond, at, values.ndim)


def _resampled(axis: PassAxis, values: Any) -> tuple[Any, Any]:
    """Resample one axis. Rows share the numbers, except those of a window of the result."""
    numbers, at = axis.numbers, axis.source
    if not _static(numbers):
        # The whole axis is resampled with constant weights, then each row takes its window.
        size = np.asarray(numbers.size)
        zeros = np.zeros(len(size), np.int32)
        whole = numbers._replace(start=zeros, length=size, mirrored=zeros != 0)
        window = identity(size)._replace(start=numbers.start, length=numbers.length, mirrored=numbers.mirrored)
        resampled, _ = _resampled(replace(axis, numbers=whole), values)
        return _picked(replace(axis, numbers=window), resampled)
    length, most = int(numbers.length[0]), most_taps(numbers)
    first, counts = np.empty(length, np.int64), np.empty(length, np.int64)
    weights = np.zeros((length, most), np.float32)
    filter_taps(numbers.matrix()[0], first, counts, weights)
    most = int(counts.max())
    last = values.shape[at + 1] - 1
    index = np.minimum(first[:, None] + np.arange(most), last).astype(np.int32)

    def term(k: Any) -> Any:
        weight = jnp.asarray(weights)[:, k]
        return no_fma(jnp, jnp.take(values, jnp.asarray(index)[:, k], axis=at + 1) * _along(weight, at, values.ndim))

    return _sum_terms(most, term), None


def _apply_value_step(operation: Any, values: Any, dtype: Any, outside: Any, pass_: Pass) -> tuple[Any, Any]:
    def terms(values_of_term: Any) -> Any:
        """Reshape a term, (rows or 1, channels or 1), to broadcast along the batch."""
        array = jnp.asarray(values_of_term)
        return (
            _along(array, pass_.channel or 0, values.ndim)
            if array.shape[1] > 1
            else array.reshape(-1, *(1,) * (values.ndim - 1))
        )

    match operation:
        case ScaleStep(mean, factor, shift):
            floats = values.astype(np.float32)
            scaled = (floats - terms(mean).astype(np.float32)) * terms(factor).astype(np.float32)
            return (no_fma(jnp, scaled) + np.float32(shift) if shift else scaled), np.dtype(np.float32)
        case ColorMatrixStep(factors):
            # The host sums three products without FMA in this order; other orders differ in the last bit.
            channel = pass_.channel or 0
            floats = values.astype(np.float32)
            channels = [jax.lax.slice_in_dim(floats, at, at + 1, axis=channel + 1) for at in range(3)]
            columns = [
                _along(jnp.asarray(factors).astype(np.float32)[:, :, at], channel, values.ndim) for at in range(3)
            ]
            red, green, blue = (no_fma(jnp, one * factor) for one, factor in zip(channels, columns, strict=True))
            return red + green + blue, np.dtype(np.float32)
        case FillStep(filling):
            if outside is None:
                return values, dtype
            return jnp.where(outside, terms(filling).astype(values.dtype), values), dtype
        case CastStep(wanted, halves_up):
            if halves_up and values.dtype == np.float32:
                limits = np.iinfo(wanted)
                nearest = jnp.clip(values + np.float32(0.5), np.float32(limits.min), np.float32(limits.max))
                return nearest.astype(np.int32).astype(wanted), wanted
            return cast_saturating(jnp, values, wanted), wanted
    raise TypeError(f"not an operation on values: {operation!r}")


def _static(numbers: AxisMapping) -> bool:
    """Return True if all rows share the numbers, which are known while the program is traced."""
    return all(isinstance(field, np.ndarray) and len(field) == 1 for field in numbers)


def _column(numbers: Any) -> Any:
    return jnp.asarray(numbers).astype(np.int32)[:, None]
