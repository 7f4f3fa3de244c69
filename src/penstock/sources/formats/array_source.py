"""Data set in memory: arrays with one row per sample."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from penstock.core import Array, Indices, RowSelection, Spec, short_digest
from penstock.errors import DefinitionError
from penstock.sources.source import Source
from penstock.sources.storage.memory_map import as_memory_mapped

# Bytes per block when two arrays are compared: memory-mapped arrays are not loaded as a whole.
_BLOCK = 1 << 20


class ArraySource(Source):
    """Source of array rows, which are read as whole batches.

    Args:
        arrays: One array per value, with samples along the first axis, in any byte order.
        layouts: Layout of a sample of each array.
        name: Name of the data set in messages.

    Raises:
        DefinitionError: The arrays have no rows, or different numbers of rows.
    """

    def __init__(self, arrays: Sequence[Array], layouts: Sequence[str], name: str = "arrays") -> None:
        lengths = {len(array) if array.ndim else 0 for array in arrays}
        if len(lengths) != 1 or lengths == {0}:
            raise DefinitionError(
                "all arrays must have the same number of rows, at least one",
                given=f"shapes {', '.join(str(array.shape) for array in arrays) or 'none'}",
                fix="pass arrays with one row per sample",
            )
        self.specs = tuple(
            Spec(array.dtype.newbyteorder("="), array.shape[1:], layout)
            for array, layout in zip(arrays, layouts, strict=True)
        )
        self.arrays = tuple(arrays)
        self._name = name
        self._mapped = list(map(as_memory_mapped, arrays))
        # Rows of mapped files are copied by `MemoryMappedRows`: a page fault in a truncated file would
        # kill the process with SIGBUS. Rows in the other byte order are swapped when they are copied.
        as_they_are = not any(self._mapped) and all(array.dtype.isnative for array in arrays)
        self.in_memory = self.arrays if as_they_are else ()

    def __len__(self) -> int:
        return len(self.arrays[0])

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Array, ...]:
        """Return the rows at `indices` of each array.

        Raises:
            SourceError: A mapped file has become shorter, or cannot be read.
        """
        return tuple([self._rows(value, indices, slot) for value, slot in enumerate(out)])

    def _rows(self, value: int, indices: Indices, out: Array | None = None) -> Array:
        array, mapped = self.arrays[value], self._mapped[value]
        place = out if out is None or array.dtype.isnative else out.view(array.dtype)
        rows = RowSelection(array, indices).gather(place) if mapped is None else mapped.gather(indices, place)
        if array.dtype.isnative:
            return rows
        rows.byteswap(inplace=True)
        return rows.view(self.specs[value].dtype) if out is None else out

    def describe(self, index: int) -> str:
        """Return the row number."""
        return f"row {index} of {self._name}"

    def reads_same_samples(self, other: Source) -> bool:
        """Return True if the rows are equal: a definition that creates arrays creates new ones for each shard."""
        if not isinstance(other, ArraySource) or (other.specs, len(other)) != (self.specs, len(self)):
            return False
        # The specs do not have the byte order.
        if [array.dtype for array in other.arrays] != [array.dtype for array in self.arrays]:
            return False
        return self is other or all(self._same(other, value) for value in range(len(self.arrays)))

    def _same(self, other: ArraySource, value: int) -> bool:
        """Return True if two arrays of the same shape and dtype have the same content."""
        mine, theirs = self.arrays[value], other.arrays[value]
        place, other_place = ((mapped and mapped.place) for mapped in (self._mapped[value], other._mapped[value]))
        same_memory = mine.ctypes.data == theirs.ctypes.data or (place is not None and place == other_place)
        if same_memory and mine.strides == theirs.strides:
            return True
        # Different files: their names decide, without reading them.
        if place and other_place:
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
        """Hash shapes, dtypes and up to 64 rows."""
        # Hashing all of a large data set would delay each start.
        rows = np.linspace(0, len(self) - 1, num=min(64, len(self)), dtype=np.int64)
        parts = [(f"{array.shape}{array.dtype}", self._rows(value, rows)) for value, array in enumerate(self.arrays)]
        return f"arrays:{len(self)}:{short_digest(*chain(*parts))}"
