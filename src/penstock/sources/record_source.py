"""Sources with one record per sample: a file, a part of a file, an entry of a database."""

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from penstock.core import Indices
from penstock.sources.source import Source
from penstock.sources.storage.byte_range import ByteRange, ReadCost


class RecordStore(Protocol):
    """Numbered records and their locations."""

    cost: ReadCost
    """Cost of reading a record."""

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

    def path(self, number: int, /) -> str | None:
        """Return the path of the file that holds a record."""
        ...

    def identity(self) -> tuple[Any, ...]:
        """Return the values that determine the records; see `Source.identity`."""
        ...


R = TypeVar("R", bound=RecordStore)


class RecordSource(Source, Generic[R]):
    """A source whose sample i is record i.

    Args:
        records: The records.
        read_as: Arguments that select the values of a record; sources with equal arguments read equal values.
    """

    def __init__(self, records: R, read_as: tuple[Any, ...] = ()) -> None:
        self.records, self._read_as = records, read_as
        self.cost = records.cost

    def __len__(self) -> int:
        return len(self.records)

    def byte_ranges(self, indices: Indices) -> Sequence[ByteRange]:
        """Return the byte ranges to prefetch from object stores for some samples."""
        return self.records.byte_ranges(indices)

    def describe(self, index: int) -> str:
        """Return the location of the record."""
        return self.records.describe(index)

    def source_info(self, index: int, value: int = 0) -> str:
        """Return the location of the record in DALI's wording."""
        return self.records.source_info(index)

    def path(self, index: int) -> str | None:
        """Return the path of the file that holds the record."""
        return self.records.path(index)

    def identity(self) -> tuple[Any, ...]:
        """Return the records and the arguments that select their values."""
        return self.records.identity(), self._read_as
