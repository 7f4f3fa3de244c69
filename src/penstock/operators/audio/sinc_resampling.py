"""Resampling of signals by windowed sincs, with DALI's table of weights and its positions."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from penstock.core.columns import Array
from penstock.operators.argument_limits import MAX_SIGNAL

_BLOCK = 256
"""Within a block of this many elements, positions are added up in float32."""
_POINTS = 64
"""Entries of the table of weights, per lobe of the sinc."""
_AT_ONCE = 1 << 14
"""Elements that are computed together, so that the weights fit into a cache."""


@cache
def _window(lobes: int) -> Array:
    """A sinc with `lobes` lobes to either side under Hann's window; one entry more, which is not weighed."""
    size = lobes * _POINTS + 1
    places = np.arange(size) - (size - 1) / 2
    weights = np.sinc(places * (2 * lobes / (size - 1))) * 0.5 * (1 + np.cos(2 * np.pi * places / size))
    return np.append(weights, [0, 0]).astype(np.float32)


def resample(data: Array, scale: float, length: int, quality: float) -> Array:
    """A signal at another rate, float32.

    Args:
        data: (elements,) or (elements, channels).
        scale: elements of the input per element of the output.
        length: elements of the output.
        quality: from 0 to 100; the number of lobes grows with it.

    Raises:
        ValueError: the output has too many elements. A file's header may announce any rate.
    """
    if length > MAX_SIGNAL:
        raise ValueError(f"the resampled signal has {length} elements, more than the {MAX_SIGNAL} that are possible")
    lobes = max(1, round(0.007 * quality * quality - 0.09 * quality + 3))
    window, values = _window(lobes), data.astype(np.float32)
    centre, points = np.float32(lobes * _POINTS / 2), np.float32(_POINTS / 2)
    result = np.zeros((length, *data.shape[1:]), np.float32)
    for first in range(0, length, _AT_ONCE):
        whole, part = _positions(first, min(length, first + _AT_ONCE), scale)
        start = np.ceil(part - np.float32(lobes)).astype(np.int64)
        steps = start[:, None] + np.arange(2 * lobes + 1)
        distances = steps.astype(np.float32) - part[:, None]
        at = distances * points + centre
        lower = np.clip(np.floor(at).astype(np.int64), 0, lobes * _POINTS)
        weights = window[lower] + (at - lower.astype(np.float32)) * (window[lower + 1] - window[lower])
        index = steps + whole[:, None]
        weights[(distances > lobes) | (index < 0) | (index >= len(values))] = 0
        taken = values[np.clip(index, 0, max(len(values) - 1, 0))] if len(values) else np.zeros(index.shape, np.float32)
        result[first : first + len(start)] = np.einsum("ij,ij...->i...", weights, taken)
    return result


def _positions(first: int, last: int, scale: float) -> tuple[Array, Array]:
    """Where elements of the output lie in the input: whole numbers, and what is to be added to them, float32."""
    blocks = np.arange(first // _BLOCK, -(-last // _BLOCK))
    begins = blocks * (_BLOCK * scale)
    whole = np.floor(begins)
    parts = np.full((len(blocks), _BLOCK), np.float32(scale))
    parts[:, 0] = (begins - whole).astype(np.float32)
    parts = np.add.accumulate(parts, axis=1, dtype=np.float32).ravel()[: last - first]
    return np.repeat(whole.astype(np.int64), _BLOCK)[: last - first], parts


def resampled_length(length: int, scale: float) -> int:
    """Elements of the output, for a scale of the output over the input."""
    return math.ceil(length * scale)
