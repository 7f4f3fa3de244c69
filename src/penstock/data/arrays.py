"""A data set that is in memory: arrays with one row per sample."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from penstock.data.order import Indices
from penstock.data.source import Array, Picked, Source
from penstock.data.spec import Spec
from penstock.errors import DefinitionError, SourceError

_BLOCK = 1 << 20
"""How many bytes of two arrays are compared at a time."""

_COPIED = 1 << 23
"""How many bytes of a mapped file are copied between two looks at its size, which take 1% of that."""


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
        self._files = [needed for array in arrays if (needed := _needed(array)) is not None]
        self.in_memory = () if self._files else self.arrays

    def __len__(self) -> int:
        return len(self.arrays[0])

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Array, ...]:
        """The rows at `indices` of every array.

        Raises:
            SourceError: a file that is mapped has become shorter.
        """
        if not self._files:
            return self._rows(indices, out)
        slots = [
            np.empty((len(indices), *a.shape[1:]), a.dtype) if o is None else o
            for a, o in zip(self.arrays, out, strict=True)
        ]
        row = max(array.nbytes // len(array) for array in self.arrays)
        step = max(1, _COPIED // max(row, 1))
        for start in range(0, len(indices), step):
            self._check_files()
            part = slice(start, start + step)
            self._rows(indices[part], [slot[part] for slot in slots])
        self._check_files()  # what a page has beyond the end of its file reads as zeros
        return tuple(slots)

    def _rows(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Array, ...]:
        return tuple([Picked(array, indices).copied(slot) for array, slot in zip(self.arrays, out, strict=True)])

    def _check_files(self) -> None:
        """Check that files that are mapped are as long as they were: to touch what is not there ends the process.

        Raises:
            SourceError: one has become shorter.
        """
        for path, file, size in self._files:
            if (found := _size(path, file)) is not None and found < size:
                fix = "let files that are read be as they are: write another one, and rename it"
                raise SourceError(f"{path!r} became shorter while it was mapped", given=f"{found} bytes", fix=fix)

    def describe(self, index: int) -> str:
        """The row's number."""
        return f"row {index} of {self._name}"

    def same_data(self, other: Source) -> bool:
        """Whether the rows are the same: a definition that makes its arrays makes new ones for every shard."""
        if not isinstance(other, ArraySource) or (other.specs, len(other)) != (self.specs, len(self)):
            return False
        return self is other or all(map(_same_array, self.arrays, other.arrays))

    def fingerprint(self) -> str:
        """Shapes, dtypes and the content of up to 64 rows."""
        digest = hashlib.sha256()
        for array in self.arrays:
            rows: Any = np.linspace(0, len(array) - 1, num=min(64, len(array)), dtype=np.int64)
            digest.update(f"{array.shape}{array.dtype}".encode())
            digest.update(np.ascontiguousarray(array[rows]).tobytes())
        return f"arrays:{len(self)}:{digest.hexdigest()[:16]}"


def _same_array(mine: Array, theirs: Array) -> bool:
    """Whether two arrays of one shape and dtype hold the same. Files that are mapped are not read for it."""
    here, there = _mapped(mine), _mapped(theirs)
    if mine.strides == theirs.strides and (mine.ctypes.data == theirs.ctypes.data or (here and here == there)):
        return True
    if here and there:
        return False
    rows = max(1, _BLOCK * len(mine) // max(mine.nbytes, 1))
    return all(
        mine[start : start + rows].tobytes() == theirs[start : start + rows].tobytes()
        for start in range(0, len(mine), rows)
    )


def _mapped(array: Array) -> tuple[str, int] | None:
    """The file whose bytes an array shows, and where in it the array begins; None for one that is in memory."""
    owner: Any = array
    while isinstance(owner.base, np.ndarray):
        owner = cast(Array, owner.base)
    if not isinstance(owner, np.memmap) or owner.filename is None:
        return None
    return str(owner.filename), int(owner.offset + array.ctypes.data - owner.ctypes.data)


def _needed(array: Array) -> tuple[str, tuple[int, int], int] | None:
    """The file that an array is mapped from, what tells that file from others, and how many bytes it needs.

    To touch what the file has lost would end the process by a signal.
    """
    mapped = _mapped(array)
    if mapped is None:
        return None
    path, start = mapped
    try:
        found = os.stat(path)  # noqa: PTH116  # a call per batch
    except OSError:  # it was removed, and stays as it is
        return None
    last = np.lib.array_utils.byte_bounds(array)[1] - array.ctypes.data
    return path, (found.st_dev, found.st_ino), start + last


def _size(path: str, file: tuple[int, int]) -> int | None:
    """The size of a file; None if it is no longer the one at this path."""
    try:
        found = os.stat(path)  # noqa: PTH116  # a call per batch
    except OSError:
        return None
    return found.st_size if (found.st_dev, found.st_ino) == file else None
