"""Records of LMDB databases by number, in the order of their keys."""

from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core import Indices, optional_import, short_digest
from penstock.errors import SampleError, SourceError, SourceNotFoundError, error_text
from penstock.sources.formats.joined_records import JoinedRecords
from penstock.sources.formats.lmdb.btree import (
    HEAD,
    CorruptDatabaseError,
    NamedDatabaseError,
    check_overflow_page,
    read_meta_page,
    walk_tree,
)
from penstock.sources.formats.protobuf_wire import Record
from penstock.sources.open_sources import open_shared
from penstock.sources.order.part_offsets import PartOffsets
from penstock.sources.storage.byte_range import ByteRange, ObjectInfo, ReadCost
from penstock.sources.storage.file_stamps import file_stamps
from penstock.sources.storage.object_store import is_remote, open_error
from penstock.sources.storage.random_access_file import LocalFile, open_file
from penstock.sources.storage.range_coalescing import RangeReader
from penstock.sources.storage.sample_limit import check_sample_size, max_sample_size

_COPY = "copy it again, from where it is whole"


def _file_in(folder: str) -> str:
    return f"{folder.rstrip('/')}/data.mdb"


class LmdbRecords:
    """Read-only snapshot of the values of one LMDB, in the state in which it was opened.

    The file is read, not memory-mapped, so that truncating it raises an error instead of crashing the process. After
    another transaction is committed to the file, all reads raise an error, because the records may have moved.

    Args:
        path: Folder with ``data.mdb``, or a prefix in an object store. A lock file is neither required nor created.

    Raises:
        SourceNotFoundError: The folder does not exist, or does not contain ``data.mdb``.
        SourceError: The file is not an LMDB, is cut short, damaged or being written to, or is empty.

    Attributes:
        path: The folder.
        file: The file ``data.mdb`` in it.
        cost: Cost of reading.
    """

    def __init__(self, path: str) -> None:
        self.file = _file_in(path)
        self.cost = ReadCost.STORE if is_remote(path) else ReadCost.FILE
        if self.cost is ReadCost.FILE and not Path(self.file).is_file():
            raise SourceNotFoundError(f"no LMDB at {path!r}", expected="a folder that holds data.mdb")
        try:
            self._opened = open_file(self.file)
            self._root = read_meta_page(self._opened)
            self._index = walk_tree(self._opened, self._root)
            self._check_unchanged()
        except OSError as error:
            if self.cost is ReadCost.STORE:
                raise open_error(self.file, error) from error
            raise SourceError(f"{self.file!r} cannot be read: {error.strerror}", fix=_COPY) from error
        except NamedDatabaseError as error:
            raise SourceError(
                f"{self.file!r} {error}",
                expected="records in the main database, which has no name",
                fix="copy the records of the named database into a file of their own",
            ) from None
        except CorruptDatabaseError as error:
            raise SourceError(f"{self.file!r} is no LMDB, or is damaged: {error}", fix=_COPY) from error
        if not len(self):
            raise SourceError(f"the LMDB at {path!r} holds no records")
        self.path = path
        self._pieces = RangeReader([ObjectInfo(self.file, self._opened.size, self._opened.tag)])

    def __len__(self) -> int:
        return len(self._index)

    def key(self, index: int) -> bytes:
        """Return the key of record `index`."""
        return self._index.key(index)

    def describe(self, index: int, path: str = "") -> str:
        """Return the database and the key of record `index`. The database has its full path, or `path` if given."""
        return f"{path or self.path} at key {self.key(index).decode('ascii', 'replace')}"

    def identity(self) -> tuple[Any, ...]:
        """Return the file in its state, and the last transaction."""
        return self._opened.state, self._root

    def byte_ranges(self, indices: Indices) -> list[ByteRange]:
        """Return the byte ranges of records in an object store."""
        if self.cost is not ReadCost.STORE:
            return []
        small = np.frombuffer(self._index.sizes, np.int64)[indices] <= max_sample_size()  # `get` refuses the others
        return self._pieces.coalesced_ranges(*self._places(indices[small]))

    def _places(self, indices: Indices) -> tuple[Indices, Indices, Indices]:
        """Return file numbers, starts and stops of records. A long record includes its page header."""
        starts = np.frombuffer(self._index.starts, np.int64)[indices]
        stops = starts + np.frombuffer(self._index.sizes, np.int64)[indices]
        return np.zeros(len(indices), np.int64), starts - HEAD * (starts % self._root.page == HEAD), stops

    def _fetched(self, indices: Indices) -> list[memoryview | OSError]:
        """Return the bytes of records in an object store, or the error of each that cannot be read."""
        places = self._places(indices)
        outs = [np.empty(size, np.uint8) for size in (places[2] - places[1]).tolist()]
        errors = self._pieces.read(*places, outs)
        return [errors.get(number, out.data) for number, out in enumerate(outs)]

    def get(self, indices: Indices) -> Sequence[Record]:
        """Return the values of records, by number.

        Raises:
            SampleError: The file has been truncated or damaged since the database was opened; names the record.
            SourceError: The file has been written to.
            ResourceError: A value exceeds the maximum size of a sample.
        """
        starts, sizes = (
            np.frombuffer(numbers, np.int64)[indices] for numbers in (self._index.starts, self._index.sizes)
        )
        if len(indices):
            largest = int(sizes.argmax())
            check_sample_size(int(sizes[largest]), self.describe(int(indices[largest])))
        far = self._fetched(indices) if self.cost is ReadCost.STORE else None
        if far is None and (short := self._short(starts, sizes)) is not None:
            return short
        page = self._root.page
        records: list[Record] = []
        rows = zip(indices.tolist(), starts.tolist(), sizes.tolist(), strict=True)
        for place, (index, start, size) in enumerate(rows):
            head = HEAD if start % page == HEAD else 0
            try:
                data = self._opened.pread(head + size, start - head) if far is None else far[place]
                if isinstance(data, OSError):
                    raise data
                if head:
                    check_overflow_page(bytes(data[:HEAD]).ljust(HEAD, b"\0"), page, start // page, size)
                record = memoryview(data)[head:] if head else data
                if len(record) != size:
                    raise CorruptDatabaseError(f"{len(record)} bytes of {size} are left")
            except (OSError, CorruptDatabaseError) as error:
                # A transaction committed meanwhile may have overwritten the record; report that instead.
                self._check_unchanged()
                raise SampleError.of(
                    index, self.describe(index), f"cannot be read: {error_text(error)}", self.file
                ) from error
            records.append(record)
        # Checked after the reads, so that a transaction committed during them is noticed too.
        self._check_unchanged()
        return records

    def _short(self, starts: Indices, sizes: Indices) -> JoinedRecords | None:
        """Return what `get` returns, for intact local records that share pages with others; otherwise None."""
        if (starts % self._root.page == HEAD).any() or not isinstance(self._opened, LocalFile):
            return None
        ends, data = np.cumsum(sizes), np.empty(int(sizes.sum()), np.uint8)
        if not self._opened.read_ranges(starts, sizes, ends - sizes, data):
            return None
        self._check_unchanged()
        return JoinedRecords(data, ends)

    def _check_unchanged(self) -> None:
        """Check that no transaction has been committed since the database was opened.

        Each transaction frees pages, which the next one may overwrite.

        Raises:
            SourceError: A transaction has been committed.
        """
        if self.cost is ReadCost.STORE:
            return  # every answer has been compared with the ETag
        try:
            now = read_meta_page(self._opened)
        except (OSError, CorruptDatabaseError) as error:
            raise SourceError(f"{self.file!r} has been damaged since it was opened: {error}", fix=_COPY) from error
        if now != self._root:
            raise SourceError(
                f"{self.file!r} has been written to since it was opened",
                given=f"transaction {now.transaction}",
                expected=f"transaction {self._root.transaction}",
                fix="read a copy, or begin when it is complete",
            )


class LmdbRecordStore:
    """Records of several LMDBs, one database after the other.

    Args:
        paths: Folders of the databases.

    Raises:
        SourceNotFoundError: A folder does not exist, or does not contain ``data.mdb``.
        SourceError: As `LmdbRecords`.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        folders = [path if is_remote(path) else str(Path(path).resolve()) for path in paths]
        # Sources share a database until its file is written to.
        self._parts = [open_shared(LmdbRecords, folder, stamp=file_stamps(_file_in(folder))) for folder in folders]
        self._paths = tuple(paths)
        self._offsets = PartOffsets(map(len, self._parts))
        self.cost = ReadCost.STORE if any(part.cost is ReadCost.STORE for part in self._parts) else ReadCost.FILE

    def __len__(self) -> int:
        return len(self._offsets)

    def byte_ranges(self, indices: Indices) -> list[ByteRange]:
        """Return the byte ranges of records in object stores."""
        parts = self._offsets.split(indices)
        return [extent for part, _, inner in parts for extent in self._parts[part].byte_ranges(inner)]

    def get(self, indices: Indices) -> Sequence[Record]:
        """Return the values of records, by number over all databases.

        Raises:
            SampleError, SourceError: As `LmdbRecords.get`.
        """
        if len(self._parts) == 1:
            return self._parts[0].get(indices)
        records: list[Record] = [b""] * len(indices)
        for part, places, inner in self._offsets.split(indices):
            first = int(self._offsets.starts[part])
            try:
                part_records = self._parts[part].get(inner)
            except SampleError as error:
                if error.index is None or not first:
                    raise
                index = error.index + first  # its number in all databases together
                what = str(error.args[0]).replace(f"sample {error.index} ", f"sample {index} ", 1)
                raise SampleError(what, index=index, source=error.source, path=error.path) from error
            for place, record in zip(places.tolist(), part_records, strict=True):
                records[place] = record
        return records

    def describe(self, index: int) -> str:
        """Return the full path of the database and the key of record `index`."""
        part, inner = self._offsets.locate(index)
        return self._parts[part].describe(inner)

    def source_info(self, index: int) -> str:
        """Return the path of the database as passed by the user, and the key."""
        part, inner = self._offsets.locate(index)
        return self._parts[part].describe(inner, self._paths[part])

    def path(self, index: int) -> str:
        """Return the file that contains record `index`."""
        return self._parts[self._offsets.locate(index)[0]].file

    def identity(self) -> tuple[Any, ...]:
        """Return the databases in their state."""
        return tuple(part.identity() for part in self._parts)

    def digest(self) -> str:
        """Return a hash of the first and last record of each database, preceded by the number of records."""
        ends = [(part, index) for part in self._parts for index in (0, len(part) - 1)]
        records = [part.key(index) + part.get(np.array([index]))[0] for part, index in ends]
        return f"{len(self)}:{short_digest(*records)}"


def lmdb_stamp(paths: Sequence[str]) -> Hashable:
    """Return a value that changes when one of the databases changes."""
    return file_stamps(*map(_file_in, paths))


def write_records(path: str | Path, records: Iterable[bytes]) -> int:
    """Add records to the LMDB in a folder, which is created if necessary. Keys are record numbers of eight digits.

    Returns:
        Number of records written.

    Raises:
        MissingExtraError: The package lmdb is not installed.
    """
    lmdb = optional_import.import_extra("lmdb", "lmdb", "writing an LMDB")  # reading needs no package
    Path(path).mkdir(parents=True, exist_ok=True)
    environment = lmdb.open(str(path), map_size=1 << 40)  # an upper bound; the file grows as it is filled
    count = 0
    try:
        with environment.begin(write=True) as transaction:
            for record in records:
                transaction.put(b"%08d" % count, record)
                count += 1
    finally:
        environment.close()
    return count
