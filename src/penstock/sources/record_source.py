"""Data sets whose samples are records of something else, one each: files, parts of files, entries of databases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from penstock.core.columns import Indices
from penstock.sources.source import Source
from penstock.sources.storage.byte_range import ByteRange, ReadCost


class RecordStore(Protocol):
    """Records by number, and what is known of each."""

    @property
    def cost(self) -> ReadCost:
        """What reading costs."""
        ...

    def __len__(self) -> int: ...

    def byte_ranges(self, numbers: Indices, /) -> Sequence[ByteRange]:
        """What is fetched from object stores for some records."""
        ...

    def describe(self, number: int, /) -> str:
        """Where record `number` lies, for messages."""
        ...

    def source_info(self, number: int, /) -> str:
        """The same, as DALI says it."""
        ...


R = TypeVar("R", bound=RecordStore)


class RecordSource(Source, Generic[R]):
    """A source whose samples are records, in their order: what is known of these holds for the samples.

    Args:
        records: what is read.
    """

    def __init__(self, records: R) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    @property
    def cost(self) -> ReadCost:
        """What reading the records costs."""
        return self.records.cost

    def byte_ranges(self, indices: Indices) -> Sequence[ByteRange]:
        """What is fetched from object stores for some records."""
        return self.records.byte_ranges(indices)

    def describe(self, index: int) -> str:
        """Where the record lies."""
        return self.records.describe(index)

    def source_info(self, index: int, value: int = 0) -> str:
        """The same, as DALI says it."""
        del value
        return self.records.source_info(index)
