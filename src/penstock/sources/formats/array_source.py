"""A data set that is in memory: arrays with one row per sample."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from penstock.core.columns import Array, Indices, RowSelection
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.sources.source import Source
from penstock.sources.storage.memory_map import as_memory_mapped

_BLOCK = 1 << 20
"""How many bytes of two arrays are compared at a time."""


class ArraySource(Source):
    """Rows of arrays, read as whole batches.

    Args:
        arrays: one array per value, each with one row per sample along its first axis.
        layouts: the layout of a sample of each.
        name: what to call the data set in messages.

    Raises:
        DefinitionError: the arrays have no rows, or not the same number of them.
    """

    def __init__(self, arrays: Sequence[Array], layouts: Sequence[str], name: str = "arrays") -> None:
        lengths = {len(array) if array.ndim else 0 for array in arrays}
        if len(lengths) != 1 or lengths == {0}:
            raise DefinitionError(
                "arrays are read row by row, so all need the same number of rows, at least one",
                given=f"shapes {', '.join(str(array.shape) for array in arrays) or 'none'}",
                fix="give every array one row per sample",
            )
        self.specs = tuple(
            Spec(array.dtype, array.shape[1:], layout) for array, layout in zip(arrays, layouts, strict=True)
        )
        self.arrays = tuple(arrays)
        self._name = name
        self._mapped = list(map(as_memory_mapped, arrays))
        self.in_memory = () if any(self._mapped) else self.arrays

    def __len__(self) -> int:
        return len(self.arrays[0])

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Array, ...]:
        """The rows at `indices` of every array.

        Raises:
            SourceError: a file that is mapped has become shorter, or cannot be read.
        """
        return tuple(
            [self._rows(value, indices, slot) for value, slot in zip(range(len(self.arrays)), out, strict=True)]
        )

    def _rows(self, value: int, indices: Indices, out: Array | None = None) -> Array:
        mapped = self._mapped[value]
        return RowSelection(self.arrays[value], indices).gather(out) if mapped is None else mapped.gather(indices, out)

    def describe(self, index: int) -> str:
        """The row's number."""
        return f"row {index} of {self._name}"

    def reads_same_samples(self, other: Source) -> bool:
        """Whether the rows are the same: a definition that makes its arrays makes new ones for every shard."""
        if not isinstance(other, ArraySource) or (other.specs, len(other)) != (self.specs, len(self)):
            return False
        return self is other or all(self._same(other, value) for value in range(len(self.arrays)))

    def _same(self, other: ArraySource, value: int) -> bool:
        """Whether two arrays of one shape and dtype hold the same. Files that have names are not read for it."""
        mine, theirs = self.arrays[value], other.arrays[value]
        here, there = ((mapped and mapped.place) for mapped in (self._mapped[value], other._mapped[value]))
        if mine.strides == theirs.strides and (mine.ctypes.data == theirs.ctypes.data or (here and here == there)):
            return True
        if here and there:
            return False
        step = max(1, _BLOCK * len(mine) // max(mine.nbytes, 1))
        return all(
            self._bytes(value, start, start + step) == other._bytes(value, start, start + step)
            for start in range(0, len(mine), step)
        )

    def _bytes(self, value: int, start: int, stop: int) -> bytes:
        if self._mapped[value] is None:
            return self.arrays[value][start:stop].tobytes()
        return self._rows(value, np.arange(start, min(stop, len(self)))).tobytes()

    def fingerprint(self) -> str:
        """Shapes, dtypes and the content of up to 64 rows."""
        digest = hashlib.sha256()
        rows = np.linspace(0, len(self) - 1, num=min(64, len(self)), dtype=np.int64)
        for value, array in enumerate(self.arrays):
            digest.update(f"{array.shape}{array.dtype}".encode())
            digest.update(self._rows(value, rows).tobytes())
        return f"arrays:{len(self)}:{digest.hexdigest()[:16]}"
