"""Columns: the values of several rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.dataclass import dataclass
from penstock.core.recycled_memory import result_memory

Indices = NDArray[np.int64]
Array = np.ndarray[Any, Any]
# Values of several rows: an array with a leading axis of rows, or a list with one array per row.
Column = Array | list[Array]


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Rows of an array, by index: a column that is not copied until it is needed."""

    array: Array
    indices: Indices

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the column."""
        return len(self.indices), *self.array.shape[1:]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, rows: slice | Indices) -> RowSelection:
        return RowSelection(self.array, self.indices[rows])

    def __iter__(self) -> Iterator[Array]:
        return (self.array[index] for index in self.indices.tolist())

    def gather(self, out: Array | None = None) -> Array:
        """Copy the column to a new array, or to `out`."""
        if out is None:
            out = result_memory.empty(self.shape, self.array.dtype)
        # With mode="raise", the default, NumPy copies `out` to a buffer first. Indices are in range by contract.
        return np.take(self.array, self.indices, axis=0, out=out, mode="clip")
