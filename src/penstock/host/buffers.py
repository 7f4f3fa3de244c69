"""Memory for batches, aligned so that handing it to JAX on the CPU copies nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from penstock.data.source import Array

_ALIGNMENT = 64
"""XLA uses NumPy memory as it is when its address is a multiple of this, else copies it."""


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array that begins at a multiple of 64 bytes.

    A buffer is filled once and then belongs to whoever holds it: JAX keeps using the memory, also when told that it may
    not, so it is never written again.
    """
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)
