"""Batches of iterators that begin the next epoch by themselves, to compare."""

import numpy as np


def taken(it, count):
    """Return the next batches as NumPy arrays."""
    batches = []
    while len(batches) < count:
        batches += [
            {name: np.asarray(array) for name, array in batch.items()} for batch in it.take(count - len(batches))
        ]
    return batches


def same(left, right):
    """True if batches have the same values."""
    return all(np.array_equal(a[name], b[name]) for a, b in zip(left, right, strict=True) for name in a)
