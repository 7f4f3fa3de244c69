"""Conversion of ragged columns to one array for compiled loops, and back."""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array, Column


def entries(column: Any) -> NDArray[np.int64]:
    """Return the number of entries of each sample. Accepts JAX's arrays, too."""
    if isinstance(column, list):
        samples = cast(list[Array], column)
        return np.fromiter(map(len, samples), np.int64, len(samples))
    rows, count = int(column.shape[0]), int(column.shape[1])
    return np.full(rows, count, np.int64)


def concatenate(column: Column) -> tuple[Array, NDArray[np.int64]]:
    """Concatenate the entries of all samples. Returns them, and their number per sample.

    >>> concatenate([np.zeros((2, 4)), np.zeros((0, 4))])[0].shape, concatenate(np.zeros((5, 3, 4)))[1].tolist()
    ((2, 4), [3, 3, 3, 3, 3])
    """
    if isinstance(column, np.ndarray):
        return column.reshape(len(column) * column.shape[1], *column.shape[2:]), entries(column)
    return np.concatenate(column), entries(column)


def flattened(column: Column) -> tuple[Array, NDArray[np.int64]]:
    """Concatenate the elements of all samples. Returns them, and the shape of each sample, (rows, axes)."""
    if isinstance(column, np.ndarray):
        shape = np.array(column.shape[1:], np.int64)
        return column.reshape(-1), np.broadcast_to(shape, (len(column), len(shape))).copy()
    elements = np.concatenate([sample.reshape(-1) for sample in column])
    return elements, np.array([sample.shape for sample in column], np.int64)


def pad_to_longest(column: Any) -> Any:
    """Pad samples with zeros to the longest, as one array. Returns arrays unchanged."""
    if not isinstance(column, list):
        return column
    values, counts = concatenate(cast(list[Array], column))
    result = np.zeros((len(counts), int(counts.max()), *values.shape[1:]), values.dtype)
    result[np.arange(result.shape[1]) < counts[:, None]] = values
    return result


def split(values: Array, counts: Any) -> list[Array]:
    """Split entries into samples; the inverse of `concatenate`.

    >>> [part.tolist() for part in split(np.arange(3), [2, 0, 1])]
    [[0, 1], [], [2]]
    """
    ends = cast(list[int], np.cumsum(counts).tolist())
    return [values[first:last] for first, last in zip([0, *ends], ends, strict=False)]
