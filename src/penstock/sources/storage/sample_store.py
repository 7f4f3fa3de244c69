"""Stores of computed samples by index: contract, and the store in memory. They never drop an entry to make room."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol
from weakref import WeakSet

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


class MemoryBudget:
    """Limit on the bytes of stores in memory, all of them together.

    It adds up the sizes of its stores, instead of being told when one ends: a finalizer may run in a thread that holds
    the lock.

    Args:
        limit: The limit, which may change.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.lock = threading.Lock()
        self.stores: WeakSet[MemoryStore] = WeakSet()

    def has_room(self, size: int) -> bool:
        """Return True if the stores may grow by some bytes. Needs the lock."""
        return sum(store.size for store in self.stores) + size <= self.limit


class MemoryStore(SampleStore):
    """Records in memory.

    Args:
        budget: Limit on their bytes, which other stores may share.

    Attributes:
        size: Number of bytes.
    """

    def __init__(self, budget: MemoryBudget) -> None:
        self.budget, self.size = budget, 0
        self._records: dict[int, tuple[SampleState, Record, int]] = {}
        with budget.lock:
            budget.stores.add(self)

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
            with self.budget.lock:
                before = self._records.get(index)
                growth = size - (0 if before is None else before[2])
                if not self.budget.has_room(growth):
                    continue
                self.size += growth
                # Copies: the arrays may be parts of a batch, or of memory that is used again.
                copies = [np.array(piece, order="C") for piece in record]
                for piece in copies:
                    piece.flags.writeable = False  # later epochs get the same arrays
                self._records[index] = (state, copies, size)

    def summary(self) -> str:
        """Describe the content in a few words."""
        return f"{len(self._records)} samples, {bytes_text(self.size)}"
