"""Samples whose memory belongs to their batch alone, so that the consumer may write to them."""

import sys
from typing import Any

import numpy as np

from penstock.core import Array, Column


def own_samples(samples: Column) -> list[Array]:
    """Return samples, with copies of those whose memory is used elsewhere.

    A reader may return the arrays of a data set, and operators such as `fn.copy` and slices return views of their
    input. Read-only samples are not copied.

    Args:
        samples: A list that nothing else contains.

    >>> data = [np.zeros(2), np.zeros(3)]
    >>> first, second, third = own_samples([data[0], data[1][::-1], np.zeros(4)])
    >>> np.shares_memory(first, data[0]), np.shares_memory(second, data[1])
    (False, False)
    """
    return [
        sample.copy() if sample.flags.writeable and not _alone(sample, *counts) else sample
        for sample, counts in zip(samples, _references(samples), strict=True)
    ]


def _alone(sample: Array, references: int, references_to_base: int) -> bool:
    base: Any = sample.base
    if base is None:
        return sample.flags.owndata and references == _UNSHARED
    # The base of a view of a view is the array that owns the memory, because NumPy does not chain views. Other objects,
    # such as tensors of PyTorch, may share their memory without a reference.
    owned = isinstance(base, np.ndarray) and base.flags.owndata
    return owned and references == _UNSHARED and references_to_base == _UNSHARED_BASE


def _references(samples: Column) -> list[tuple[int, int]]:
    return [(sys.getrefcount(sample), sys.getrefcount(sample.base)) for sample in samples]


# Measured, because the interpreter's own references differ between versions of Python.
((_UNSHARED, _UNSHARED_BASE),) = _references([np.empty(2)[:1]])
