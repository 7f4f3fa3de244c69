"""The canvas executor: passes over a dense batch of images inside the device program.

Numbers that are the same for all rows are known while the program is traced, and become constants; the others are
arrays of the program. Sums go over the taps of a filter one after the other, as on the host, and not through a matrix
product, whose order of summation may depend on how many rows a device has.
"""
# pyright: basic
# JAX is typed in part only

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from penstock.operators.convert import convert
from penstock.operators.image.axis import Numbers, is_resampled, most_taps
from penstock.operators.image.compose import Axis, Pass
from penstock.operators.image.steps import Convert, Fill, Scale
from penstock.operators.image.taps import taps

_UNROLLED = 16
"""Filters with at most so many taps are written out; the others loop."""


def execute(passes: Sequence[Pass], images: Any) -> Any:
    """Do passes.

    Args:
        passes: what to do; lengths of axes are the same for all rows.
        images: the batch, (rows, ...).
    """
    for each in passes:
        images = _execute(each, images)
    return images


def _execute(work: Pass, images: Any) -> Any:
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
            if axis.source in work.void and beyond is not None:
                outside = beyond if outside is None else outside | beyond
    dtype = np.dtype(np.float32) if work.resampled else work.reads
    for operation in work.colours:
        values, dtype = _coloured(operation, values, dtype, outside, work)
    values = values.astype(work.dtype)
    return jnp.transpose(values, (0, *(axis.source + 1 for axis in work.axes)))


def _along(values: Any, axis: int, ndim: int) -> Any:
    """(rows, n) or (n,) shaped to broadcast along an axis of a batch."""
    rows = values.shape[:-1] or (1,)
    return values.reshape(*rows, *(values.shape[-1] if at == axis else 1 for at in range(ndim - 1)))


def _picked(values: Any, axis: Axis) -> tuple[Any, Any]:
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


def _resampled(values: Any, axis: Axis) -> Any:
    """One axis resampled; its numbers are the same for all rows."""
    numbers, at = axis.numbers, axis.source
    length, most = int(numbers.length[0]), most_taps(numbers)
    first, counts = np.empty(length, np.int64), np.empty(length, np.int64)
    weights = np.zeros((length, most), np.float32)
    taps(numbers.matrix()[0], first, counts, weights)
    most = int(counts.max())
    last = values.shape[at + 1] - 1
    index = np.minimum(first[:, None] + np.arange(most), last).astype(np.int32)

    def term(k: Any) -> Any:
        weight = jnp.asarray(weights)[:, k]
        return jnp.take(values, jnp.asarray(index)[:, k], axis=at + 1) * _along(weight, at, values.ndim)

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
        case Scale(mean, factor, shift):
            floats = values.astype(np.float32)
            scaled = (floats - terms(mean).astype(np.float32)) * terms(factor).astype(np.float32)
            return (scaled + np.float32(shift) if shift else scaled), np.dtype(np.float32)
        case Fill(filling):
            if outside is None:
                return values, dtype
            return jnp.where(outside, terms(filling).astype(values.dtype), values), dtype
        case Convert(wanted, halves_up):
            if halves_up and values.dtype == np.float32:
                limits = np.iinfo(wanted)
                nearest = jnp.clip(values + np.float32(0.5), np.float32(limits.min), np.float32(limits.max))
                return nearest.astype(np.int32).astype(wanted), wanted
            return convert(jnp, values, wanted), wanted
    raise TypeError(f"no operation on values: {operation!r}")


def _static(numbers: Numbers) -> bool:
    """Whether the numbers are known while the program is traced, and the same for all rows."""
    return all(isinstance(field, np.ndarray) and len(field) == 1 for field in numbers)


def _column(numbers: Any) -> Any:
    return jnp.asarray(numbers).astype(np.int32)[:, None]
