"""Base class of sources that read records from LMDBs."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from penstock.core import Array, Column, Indices, Spec
from penstock.errors import SourceError
from penstock.sources.formats.lmdb.lmdb_records import LmdbRecordStore
from penstock.sources.formats.protobuf_wire import Record
from penstock.sources.record_source import RecordSource
from penstock.sources.source import stack_dense


class LmdbSource(RecordSource[LmdbRecordStore]):
    """Records of one or several LMDBs, one database after the other.

    Args:
        paths: Folders of the LMDBs.
        read_as: As for `RecordSource`.

    Raises:
        SourceError: As `LmdbRecordStore`, or the first record does not match the arguments.
    """

    # Name of the record type in messages.
    format: ClassVar[str]

    def __init__(self, paths: tuple[str, ...], read_as: tuple[Any, ...]) -> None:
        super().__init__(LmdbRecordStore(paths), read_as)
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
        """Return the values of the records at `indices`."""
        columns: tuple[list[Array], ...] = tuple([] for _ in self.specs)
        for index, record in zip(indices.tolist(), self.records.get(indices), strict=True):
            try:
                for column, spec, value in zip(columns, self.specs, self._values(record), strict=True):
                    if not spec.accepts(value):
                        raise ValueError(f"{value.dtype}{list(value.shape)} where sample 0 has {spec}")
                    column.append(value)
            except ValueError as error:
                raise self.sample_error(index, f"is no {self.format} record: {error}") from error
        return stack_dense(columns, self.specs, out)

    def fingerprint(self) -> str:
        """Return the number of records and a hash of the first and last of each database."""
        return f"{self.format.lower()}:{self.records.digest()}"
