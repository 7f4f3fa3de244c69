"""Rows of arrays that NumPy has mapped from a file, guarded by the size of the file.

A process that touches a mapped page beyond the end of its file is killed by SIGBUS, which Python cannot catch. So the
size of the file is checked before rows are copied. A file that another process cuts during the copy still ends the
process.
"""

from __future__ import annotations

import mmap
import os
from typing import Any, cast

import numpy as np

from penstock.core import Array, Indices, RowSelection
from penstock.errors import SourceError


def as_memory_mapped(array: Array) -> MemoryMappedRows | None:
    """Return the guarded rows of an array that NumPy has mapped, or of a view of one; None for another array."""
    # Views refer to what they are views of by `base`, and through helpers such as `frombuffer` by a memoryview's `obj`.
    # The chain ends with the map; the array before it is the one that `np.memmap` made.
    mapped: Any = None
    owner: Any = array
    while owner is not None and not isinstance(owner, mmap.mmap):
        mapped = owner
        owner = owner.obj if isinstance(owner, memoryview) else getattr(owner, "base", None)
    if owner is None or not isinstance(mapped, np.memmap):
        return None
    return MemoryMappedRows(array, cast("np.memmap[Any, Any]", mapped), owner)


class MemoryMappedRows:
    """Rows of an array that is mapped from a file.

    Args:
        array: Any shape and strides, one row per sample along the first axis.
        mapped: The array that was mapped, of which `array` is a view.
        memory: The map.

    Attributes:
        place: Path of the file and the byte at which the array begins; None without a file name, or for mode "c".
    """

    def __init__(self, array: Array, mapped: np.memmap[Any, Any], memory: mmap.mmap) -> None:
        self._array, self._memory = array, memory
        first = array.ctypes.data
        begin = int(mapped.offset + first - mapped.ctypes.data)
        path = None if mapped.filename is None else os.fspath(mapped.filename)
        self._name = "a mapped file" if path is None else repr(path)
        # In mode "c", the file does not contain what was written to the array.
        self.place = None if path is None or mapped.mode == "c" else (path, begin)
        # Rows after the view's last byte may be cut without harm. Negative strides begin at the view's last byte, so
        # its bounds count, not its first element.
        self._required_size = begin + np.lib.array_utils.byte_bounds(array)[1] - first

    def __reduce__(self) -> Any:
        return as_memory_mapped, (self._array,)

    def gather(self, indices: Indices, out: Array | None = None) -> Array:
        """Copy the rows at `indices`, into `out` if given.

        Raises:
            SourceError: The file has become shorter than the array, or its size cannot be read.
        """
        self.check_size()
        return RowSelection(self._array, indices).gather(out)

    def check_size(self) -> None:
        """Check that the file still contains the array, before its memory is touched.

        Raises:
            SourceError: The file has become shorter than the array, or its size cannot be read.
        """
        try:
            size = self._memory.size()  # by the map's own descriptor: the file may have been renamed or removed
        except OSError as error:
            raise SourceError(f"the size of {self._name}, which is mapped, cannot be read", given=error) from error
        if size < self._required_size:
            raise SourceError(
                f"{self._name} became shorter while it was mapped",
                given=f"{size} bytes",
                expected=f"at least {self._required_size}",
                fix="do not write to a file that is being read: write another one, and rename it",
            )
