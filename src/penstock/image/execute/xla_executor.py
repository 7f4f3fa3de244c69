"""The canvas executor: passes over a dense batch of images inside the device program.

Numbers that are the same for all rows are known while the program is traced, and become constants; the others are
arrays of the program. Sums go over the taps of a filter one after the other, as on the host, and not through a matrix
product, whose order of summation may depend on how many rows a device has.
"""
# pyright: basic
# JAX is typed in part only

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from penstock.image.describe.axis_mapping import AxisMapping, identity, is_resampled, most_taps
from penstock.image.describe.pixel_pass import Pass, PassAxis
from penstock.image.describe.steps import CastStep, ColorMatrixStep, FillStep, ScaleStep
from penstock.image.kernels.filter_taps import filter_taps
from penstock.numerics.casting import cast_saturating
from penstock.numerics.ordered_sums import no_fma

if TYPE_CHECKING:
    from penstock.image.execute.canvas_packing import AxisPacking, PassPacking

_UNROLLED = 16
"""Filters with at most this many taps are written out; the others loop."""


def trace_passes(passes: Sequence[Pass], images: Any) -> Any:
    """Do passes.

    Args:
        passes: what to do; lengths of axes are the same for all rows.
        images: the batch, (rows, ...).
    """
    for each in passes:
        images = _execute(each, images)
    return images


def _execute(work: Pass, images: Any) -> Any:
    if work.apply:
        numbers = [axis.numbers for axis in work.axes]
        given = jnp.stack([jnp.asarray(each.end).astype(np.int32) for each in numbers], axis=1)
        made = jnp.stack([jnp.asarray(each.length).astype(np.int32) for each in numbers], axis=1)
        shape = tuple(int(each.length[0]) for each in numbers)
        return _applied(work, images, given, work.apply.terms, made, shape)
    outside = None
    by_source = sorted(work.axes, key=lambda axis: axis.source)
    if work.resampled:
        values = images.astype(np.float32)
        for axis in by_source:
            resampled = isinstance(axis.numbers.low, np.ndarray) and bool(is_resampled(axis.numbers).any())
            values = _resampled(values, axis) if resampled else _picked(values, axis)[0]
    else:
        values = images
        for axis in by_source:
            values, beyond = _picked(values, axis)
            if axis.source in work.padded_axes and beyond is not None:
                outside = beyond if outside is None else outside | beyond
    dtype = np.dtype(np.float32) if work.resampled else work.input_dtype
    for operation in work.value_ops:
        values, dtype = _coloured(operation, values, dtype, outside, work)
    values = values.astype(work.dtype)
    return jnp.transpose(values, (0, *(axis.source + 1 for axis in work.axes)))


def trace_packed_passes(plans: Sequence[PassPacking], images: Any, numbers: Any) -> Any:
    """Do passes whose numbers the host has packed (`penstock.image.execute.canvas_packing`).

    Args:
        plans: how they lie in the vectors.
        images: the batch, (rows, ...).
        numbers: a vector per row.
    """
    at = 0

    def take(count: int) -> Any:
        nonlocal at
        at += count
        return numbers[:, at - count : at]

    for plan in plans:
        work, outside = plan.outline, None
        if work.apply:
            given, made, *terms = map(take, plan.applied)
            shape = tuple(axis.length for axis in plan.axes)
            images = _applied(work, images, given.astype(np.int32), terms, made.astype(np.int32), shape)
            continue
        values = images.astype(np.float32) if work.resampled else images
        for axis in plan.axes:
            if axis.most:
                first = take(axis.length).astype(np.int32)
                weights = take(axis.length * axis.most).reshape(-1, axis.length, axis.most)
                values = _weighed(values, axis.source, first, weights)
            elif axis.moved:
                values, beyond = _walked(values, axis, *(take(1).astype(np.int32) for _ in range(4)))
                if axis.source in work.padded_axes:
                    outside = beyond if outside is None else outside | beyond
        dtype = np.dtype(np.float32) if work.resampled else work.input_dtype
        for operation, widths in zip(work.value_ops, plan.terms, strict=True):
            match operation:
                case ScaleStep():
                    mean, factor = map(take, widths)
                    given = replace(operation, mean=mean, factor=factor)
                case ColorMatrixStep():
                    given = ColorMatrixStep(take(widths[0]).reshape(-1, 3, 3))
                case FillStep():
                    given = FillStep(take(widths[0]))
                case _:
                    given = operation
            values, dtype = _coloured(given, values, dtype, outside, work)
        images = jnp.transpose(values.astype(work.dtype), (0, *(axis.source + 1 for axis in work.axes)))
    return images


def _applied(work: Pass, images: Any, given: Any, terms: Sequence[Any], made: Any, shape: tuple[int, ...]) -> Any:
    """The result of a pass that is a transform, in its dtype."""
    assert work.apply is not None
    return cast_saturating(jnp, work.apply.transform.trace_xla(images, given, terms, made, shape), work.dtype)


def _weighed(values: Any, at: int, first: Any, weights: Any) -> Any:
    """One axis resampled, with first pixels (rows, length) and weights (rows, length, taps)."""
    last, most = values.shape[at + 1] - 1, weights.shape[2]

    def term(k: Any) -> Any:
        index = _along(jnp.minimum(first + k, last), at, values.ndim)
        weight = _along(jax.lax.dynamic_index_in_dim(weights, k, 2, keepdims=False), at, values.ndim)
        picked = jnp.take_along_axis(values, index, axis=at + 1, mode="promise_in_bounds")
        return jnp.where(weight == 0, 0, no_fma(jnp, picked * weight))  # what has no weight may be no number

    if most <= _UNROLLED:
        total = term(0)
        for k in range(1, most):
            total = total + term(k)
        return total
    return jax.lax.fori_loop(1, most, lambda k, total: total + term(k), term(0))


def _walked(values: Any, axis: AxisPacking, first: Any, direction: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """The pixels of one axis from the first on, in a direction, and which of them lie outside of the image."""
    count = jnp.arange(axis.length, dtype=np.int32)[None, :]
    index = jnp.clip(first + direction * count, 0, values.shape[axis.source + 1] - 1)
    index = _along(index, axis.source, values.ndim)
    picked = jnp.take_along_axis(values, index, axis=axis.source + 1, mode="promise_in_bounds")
    return picked, _along((count < low) | (count >= high), axis.source, values.ndim)


def _along(values: Any, axis: int, ndim: int) -> Any:
    """(rows, n) or (n,) shaped to broadcast along an axis of a batch."""
    rows = values.shape[:-1] or (1,)
    return values.reshape(*rows, *(values.shape[-1] if at == axis else 1 for at in range(ndim - 1)))


def _picked(values: Any, axis: PassAxis) -> tuple[Any, Any]:
    """The wanted pixels of one axis, and which of them lie outside of the image, if that can be."""
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


def _resampled(values: Any, axis: PassAxis) -> Any:
    """One axis resampled. The numbers of that are the same for all rows; those of a window of the result may differ."""
    numbers, at = axis.numbers, axis.source
    if not _static(numbers):
        size = np.asarray(numbers.size)
        none = np.zeros(len(size), np.int32)
        all_of_it = numbers._replace(start=none, length=size, mirrored=none != 0)
        window = identity(size)._replace(start=numbers.start, length=numbers.length, mirrored=numbers.mirrored)
        resampled = _resampled(values, replace(axis, numbers=all_of_it))
        return _picked(resampled, replace(axis, numbers=window))[0]
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

    if most <= _UNROLLED:
        total = term(0)
        for k in range(1, most):
            total = total + term(k)
        return total
    return jax.lax.fori_loop(1, most, lambda k, total: total + term(k), term(0))


def _coloured(operation: Any, values: Any, dtype: Any, outside: Any, work: Pass) -> tuple[Any, Any]:
    def terms(given: Any) -> Any:
        """Per row, or for all; per channel, or for all."""
        array = jnp.asarray(given)
        return (
            _along(array, work.channel or 0, values.ndim)
            if array.shape[1] > 1
            else array.reshape(-1, *(1,) * (values.ndim - 1))
        )

    match operation:
        case ScaleStep(mean, factor, shift):
            floats = values.astype(np.float32)
            scaled = (floats - terms(mean).astype(np.float32)) * terms(factor).astype(np.float32)
            return (no_fma(jnp, scaled) + np.float32(shift) if shift else scaled), np.dtype(np.float32)
        case ColorMatrixStep(factors):
            channel = work.channel or 0
            floats = values.astype(np.float32)
            each = [jax.lax.slice_in_dim(floats, at, at + 1, axis=channel + 1) for at in range(3)]
            by = [_along(jnp.asarray(factors).astype(np.float32)[:, :, at], channel, values.ndim) for at in range(3)]
            red, green, blue = (no_fma(jnp, one * factor) for one, factor in zip(each, by, strict=True))
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
    raise TypeError(f"no operation on values: {operation!r}")


def _static(numbers: AxisMapping) -> bool:
    """Whether the numbers are known while the program is traced, and the same for all rows."""
    return all(isinstance(field, np.ndarray) and len(field) == 1 for field in numbers)


def _column(numbers: Any) -> Any:
    return jnp.asarray(numbers).astype(np.int32)[:, None]
