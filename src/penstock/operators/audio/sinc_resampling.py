"""Resampling of signals by windowed sincs, with the filter table and the rounding of positions of DALI."""

import math
from functools import cache

import numpy as np

from penstock.core import Array
from penstock.operators.argument_limits import MAX_SIGNAL

# DALI adds up positions in float32 within blocks of this many samples, and starts each block from an exact position.
_BLOCK = 256

# Entries of the filter table per lobe of the sinc, as in DALI. Weights between entries are interpolated linearly.
_POINTS = 64

# Output samples that are computed together. Their weights fit into the CPU's cache.
_CHUNK = 1 << 14


@cache
def _window(lobes: int) -> Array:
    """Return a sinc with `lobes` lobes on either side under a Hann window."""
    size = lobes * _POINTS + 1
    offsets = np.arange(size) - (size - 1) / 2
    # The window divides by `size`, not `size - 1`: so does DALI, which sets the last bits of the result.
    weights = np.sinc(offsets * (2 * lobes / (size - 1))) * 0.5 * (1 + np.cos(2 * np.pi * offsets / size))
    # Interpolation reads one entry past the last index.
    return np.append(weights, [0, 0]).astype(np.float32)


def resample(data: Array, scale: float, length: int, quality: float) -> Array:
    """Resample a signal to another rate, in float32.

    Args:
        data: Signal of shape (samples,) or (samples, channels).
        scale: Samples of the input per sample of the output.
        length: Samples of the output.
        quality: From 0 to 100; determines the number of lobes.

    Raises:
        ValueError: The output would be too long.
    """
    # The length may come from a file's header, which can contain any rate.
    if length > MAX_SIGNAL:
        raise ValueError(f"the resampled signal would have {length} samples, more than the limit of {MAX_SIGNAL}")
    # DALI's parabola: 3 lobes for quality 0, 16 for 50, 64 for 100.
    lobes = max(1, round(0.007 * quality * quality - 0.09 * quality + 3))
    window, values = _window(lobes), data.astype(np.float32)
    center, points = np.float32(lobes * _POINTS / 2), np.float32(_POINTS / 2)
    result = np.zeros((length, *data.shape[1:]), np.float32)
    for first in range(0, length, _CHUNK):
        whole, fraction = _positions(first, min(length, first + _CHUNK), scale)
        start = np.ceil(fraction - np.float32(lobes)).astype(np.int64)
        steps = start[:, None] + np.arange(2 * lobes + 1)
        distances = steps.astype(np.float32) - fraction[:, None]
        index = distances * points + center
        lower = np.clip(np.floor(index).astype(np.int64), 0, lobes * _POINTS)
        weights = window[lower] + (index - lower.astype(np.float32)) * (window[lower + 1] - window[lower])
        source = steps + whole[:, None]
        # Samples outside of the signal count as 0.
        weights[(distances > lobes) | (source < 0) | (source >= len(values))] = 0
        if len(values):
            terms = values[np.clip(source, 0, len(values) - 1)]
            result[first : first + len(start)] = np.einsum("ij,ij...->i...", weights, terms)
    return result


def _positions(first: int, last: int, scale: float) -> tuple[Array, Array]:
    """Return the positions of output samples in the input: whole numbers, and float32 offsets to add to them."""
    blocks = np.arange(first // _BLOCK, -(-last // _BLOCK))
    begins = blocks * (_BLOCK * scale)
    whole = np.floor(begins)
    offsets = np.full((len(blocks), _BLOCK), np.float32(scale))
    offsets[:, 0] = (begins - whole).astype(np.float32)
    # `accumulate` adds one by one, in the order of DALI's loop, so rounding errors are the same.
    offsets = np.add.accumulate(offsets, axis=1, dtype=np.float32).ravel()[: last - first]
    return np.repeat(whole.astype(np.int64), _BLOCK)[: last - first], offsets


def resampled_length(length: int, scale: float) -> int:
    """Return the length of the output for a scale of the output's rate over the input's, rounded up as in DALI."""
    return math.ceil(length * scale)
