"""Sources over the records of LMDBs, whatever a record is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from penstock.core.columns import Array, Column, Indices
from penstock.core.spec import Spec
from penstock.errors import SourceError
from penstock.sources.formats.lmdb.lmdb_records import LmdbRecordStore
from penstock.sources.formats.protobuf_wire import Record
from penstock.sources.record_source import RecordSource
from penstock.sources.source import Source


class LmdbSource(RecordSource[LmdbRecordStore]):
    """The records of one or several LMDBs, one database after the other.

    Args:
        paths: the LMDBs' folders.
        read_as: the arguments that say what of a record is read.

    Raises:
        SourceError: as `LmdbRecordStore`, or the first record is not what the arguments say.
    """

    # Name of the record type in messages.
    format: ClassVar[str]

    def __init__(self, paths: tuple[str, ...], read_as: tuple[Any, ...]) -> None:
        super().__init__(LmdbRecordStore(paths))
        self._read_as = read_as
        try:
            first = self._values(self.records.get(np.zeros(1, np.int64))[0])
        except ValueError as error:
            raise SourceError(f"{self.describe(0)} is no {self.format} record: {error}") from error
        self.specs = self._specs_of(first)

    @abstractmethod
    def _values(self, record: Record) -> list[Array]:
        """Decode the values of a record.

        Raises:
            ValueError: The record is damaged, or differs in type from the first.
        """

    @abstractmethod
    def _specs_of(self, first: Sequence[Array]) -> tuple[Spec, ...]:
        """Return the specs of all records, from the values of the first one."""

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """The values of the records at `indices`."""
        columns: tuple[list[Array], ...] = tuple([] for _ in self.specs)
        for index, record in zip(indices.tolist(), self.records.get(indices), strict=True):
            try:
                for column, spec, value in zip(columns, self.specs, self._values(record), strict=True):
                    if not spec.accepts(value):
                        raise ValueError(f"{value.dtype}{list(value.shape)} where sample 0 has {spec}")
                    column.append(value)
            except ValueError as error:
                raise self.records.error(index, f"is no {self.format} record: {error}") from error
        return tuple(
            np.stack(column, out=slot) if spec.dense else column
            for column, spec, slot in zip(columns, self.specs, out, strict=True)
        )

    def path(self, index: int) -> str:
        """The database's file."""
        return self.records.path(index)

    def reads_same_samples(self, other: Source) -> bool:
        """Return True if both read the same records in the same way."""
        return (
            isinstance(other, type(self))
            and self._read_as == other._read_as  # noqa: SLF001  # one class
            and self.records.same_records(other.records)
        )

    def fingerprint(self) -> str:
        """The number of records, and the first and last of each database."""
        return f"{self.format.lower()}:{self.records.digest()}"
