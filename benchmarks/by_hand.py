"""Shared parts of the hand-written contenders: prefetching on threads, and batch memory that JAX can use directly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

AHEAD = 2


def empty(shape, dtype, *, aligned: bool) -> np.ndarray:
    """Allocate memory for a batch.

    JAX on the CPU uses memory without a copy if its address is a multiple of 64 bytes. NumPy's memory usually is not
    aligned like this. Few hand-written loops take care of it, so both variants compete.
    """
    if not aligned:
        return np.empty(shape, dtype)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + 64, np.uint8)
    first = -memory.ctypes.data % 64
    return memory[first : first + size].view(dtype).reshape(shape)


def indices(length: int, batch: int, draw: np.random.Generator | None) -> Iterator[np.ndarray]:
    """Yield the sample indices of each batch: a new permutation per epoch, or the stored order without a generator."""
    left = np.empty(0, np.int64)
    while True:
        while len(left) < batch:
            left = np.concatenate([left, np.arange(length) if draw is None else draw.permutation(length)])
        yield left[:batch]
        left = left[batch:]


def batches(tasks: Iterator[Callable[[], Any]], threads: int, sharding: Any = None) -> Iterator[Any]:
    """Yield the results of tasks as JAX arrays. Each task computes a batch, `AHEAD` of them in advance."""
    with ThreadPoolExecutor(threads) as pool:
        pending = deque(pool.submit(next(tasks)) for _ in range(AHEAD))
        while True:
            pending.append(pool.submit(next(tasks)))
            yield jax.device_put(pending.popleft().result(), sharding)
