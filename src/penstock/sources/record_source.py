"""Sources with one record per sample: a file, a part of a file, an entry of a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from penstock.core import Indices
from penstock.sources.source import Source
from penstock.sources.storage.byte_range import ByteRange, ReadCost


class RecordStore(Protocol):
    """Numbered records and their locations."""

    @property
    def cost(self) -> ReadCost:
        """Cost of reading a record."""
        ...

    def __len__(self) -> int: ...

    def byte_ranges(self, numbers: Indices, /) -> Sequence[ByteRange]:
        """Return the byte ranges to prefetch from object stores for some records."""
        ...

    def describe(self, number: int, /) -> str:
        """Return the location of a record, for messages."""
        ...

    def source_info(self, number: int, /) -> str:
        """Return the location of a record in DALI's wording."""
        ...


R = TypeVar("R", bound=RecordStore)


class RecordSource(Source, Generic[R]):
    """A source whose sample i is record i.

    Args:
        records: The records.
    """

    def __init__(self, records: R) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    @property
    def cost(self) -> ReadCost:
        """Cost of reading a sample."""
        return self.records.cost

    def byte_ranges(self, indices: Indices) -> Sequence[ByteRange]:
        """Return the byte ranges to prefetch from object stores for some samples."""
        return self.records.byte_ranges(indices)

    def describe(self, index: int) -> str:
        """Return the location of the record."""
        return self.records.describe(index)

    def source_info(self, index: int, value: int = 0) -> str:
        """Return the location of the record in DALI's wording."""
        del value
        return self.records.source_info(index)
