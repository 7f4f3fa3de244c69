"""Stores of computed samples by index: contract, and the store in memory. They never drop an entry to make room."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array, Indices
from penstock.sources.storage.file_stamps import SampleState
from penstock.sources.storage.sample_limit import bytes_text

# Values of one sample.
Record = Sequence[Array]

# Estimate of the memory for the Python objects of a record and of each of its arrays.
_RECORD_BYTES, _ARRAY_BYTES = 200, 120


class SampleStore(Protocol):
    """Records by the index of their sample. Thread-safe.

    When the limit is reached, nothing more is stored. Each epoch visits each sample once, so an entry that made room
    for another would be missed just as soon.
    """

    def find(self, indices: Indices, states: Sequence[SampleState]) -> list[Record | None]:
        """Return the records of samples, None for those that are not stored in the given state."""
        ...

    def has(self, indices: Indices) -> NDArray[np.bool_]:
        """Return True for each sample that is stored in any state."""
        ...

    def add(self, indices: Indices, states: Sequence[SampleState], records: Sequence[Record]) -> None:
        """Store copies of records, as far as there is room. A sample whose state is None is not stored."""
        ...

    def summary(self) -> str:
        """Describe the content in a few words."""
        ...


class MemoryStore(SampleStore):
    """Records in memory.

    Args:
        limit: Limit on their bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._size = limit, 0
        self._records: dict[int, tuple[SampleState, Record, int]] = {}
        self._lock = threading.Lock()

    def find(self, indices: Indices, states: Sequence[SampleState]) -> list[Record | None]:
        """Return the records of samples, None for those that are not stored in the given state."""
        entries = [self._records.get(index) for index in indices.tolist()]
        return [
            entry[1] if entry is not None and state is not None and entry[0] == state else None
            for entry, state in zip(entries, states, strict=True)
        ]

    def has(self, indices: Indices) -> NDArray[np.bool_]:
        """Return True for each sample that is stored in any state."""
        return np.array([index in self._records for index in indices.tolist()], np.bool_)

    def add(self, indices: Indices, states: Sequence[SampleState], records: Sequence[Record]) -> None:
        """Store copies of records, as far as there is room."""
        for index, state, record in zip(indices.tolist(), states, records, strict=True):
            size = _RECORD_BYTES + sum(_ARRAY_BYTES + piece.nbytes for piece in record)
            if state is None:
                continue
            with self._lock:
                before = self._records.get(index)
                size_before = 0 if before is None else before[2]
                if self._size - size_before + size > self._limit:
                    continue
                self._size += size - size_before
                # Copies: the arrays may be parts of a batch, or of memory that is used again.
                self._records[index] = (state, [np.array(piece, order="C") for piece in record], size)

    def summary(self) -> str:
        """Describe the content in a few words."""
        return f"{len(self._records)} samples, {bytes_text(self._size)}"
