"""What the hand-written contenders share: batches that threads prepare ahead, in memory that JAX can take."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

AHEAD = 2


def empty(shape, dtype, *, aligned: bool) -> np.ndarray:
    """Memory for a batch.

    JAX on the CPU takes memory as it is where it begins at a multiple of 64 bytes, and copies it otherwise. NumPy's
    does not, as a rule. Few loops that people write know this, so both kinds compete.
    """
    if not aligned:
        return np.empty(shape, dtype)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(size + 64, np.uint8)
    first = -memory.ctypes.data % 64
    return memory[first : first + size].view(dtype).reshape(shape)


def indices(length: int, batch: int, draw: np.random.Generator | None) -> Iterator[np.ndarray]:
    """The samples of batch after batch: one permutation of all after the other, or their order without a generator."""
    left = np.empty(0, np.int64)
    while True:
        while len(left) < batch:
            left = np.concatenate([left, np.arange(length) if draw is None else draw.permutation(length)])
        yield left[:batch]
        left = left[batch:]


def batches(tasks: Iterator[Callable[[], Any]], threads: int, sharding: Any = None) -> Iterator[Any]:
    """The arrays that tasks make, one task per batch, a few of them ahead."""
    with ThreadPoolExecutor(threads) as pool:
        begun = deque(pool.submit(next(tasks)) for _ in range(AHEAD))
        while True:
            begun.append(pool.submit(next(tasks)))
            yield jax.device_put(begun.popleft().result(), sharding)
