"""Columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


Array = np.ndarray[Any, Any]


Column = Array | list[Array]
"""One value for several rows: an array with a leading axis of rows, or a list with one array per row."""


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Rows of an array, by their numbers: a column that nobody has copied yet."""

    array: Array
    indices: Indices

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the column."""
        return len(self.indices), *self.array.shape[1:]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, rows: slice | Indices) -> RowSelection:
        return RowSelection(self.array, self.indices[rows])

    def __iter__(self) -> Iterator[Array]:
        return (self.array[index] for index in self.indices.tolist())

    def gather(self, out: Array | None = None) -> Array:
        """The column as an array of its own, in `out` where that is given."""
        # mode="clip" lets NumPy write into `out` without a buffer; indices are inside by contract
        return np.take(self.array, self.indices, axis=0, out=out, mode="clip")
