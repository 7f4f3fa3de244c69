"""LMDB: the records of a database by number, in the order of their keys."""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.data.source import shared, stamp_of
from penstock.errors import MissingExtraError, SampleError, SourceError, SourceNotFoundError

try:
    import lmdb
except ImportError:  # the extra is asked for when a database is opened, not when the package is imported
    lmdb = None


if TYPE_CHECKING:
    from lmdb import Transaction


class _Environment:
    """An LMDB that is open, read-only. LMDB refuses to open one twice in a process, so it is shared.

    Args:
        path: the folder.
    """

    def __init__(self, path: str) -> None:
        if lmdb is None:
            raise MissingExtraError("lmdb", "lmdb", "reading an LMDB")
        try:
            self.env = lmdb.open(path, readonly=True, lock=False, readahead=False)
        except lmdb.Error as error:
            file = str(Path(path) / "data.mdb")
            if "already open" in str(error):  # LMDB has no class for it
                raise SourceError(
                    f"{file!r} is open in this process already, by something else or as the file that it was before",
                    fix="close it there; drop the pipelines that read the file that it has replaced",
                ) from error
            raise SourceError(f"{file!r} is no LMDB: {error}") from error

    def __del__(self) -> None:
        if hasattr(self, "env"):
            self.env.close()


def open_records(path: str) -> LmdbRecords:
    """The records of the LMDB in a folder, listed once for as long as nobody writes to it.

    Raises:
        PenstockError: as `LmdbRecords`.
    """
    return shared(LmdbRecords, path, stamp=stamp_of(Path(path) / "data.mdb"))


class LmdbRecords:
    """The values of one LMDB, as it was when this was made.

    Args:
        path: the folder with ``data.mdb``; no lock file is needed or made.

    Raises:
        MissingExtraError: the package lmdb is not installed.
        SourceNotFoundError: there is no such folder, or no ``data.mdb`` in it.
        SourceError: the file is no LMDB, is cut short, or holds nothing.
    """

    def __init__(self, path: str) -> None:
        if lmdb is None:
            raise MissingExtraError("lmdb", "lmdb", "reading an LMDB")
        file = Path(path) / "data.mdb"
        if not file.is_file():
            raise SourceNotFoundError(f"no LMDB at {path!r}", expected="a folder that holds data.mdb")
        found = file.stat()
        self._opened = shared(_Environment, path, stamp=(found.st_dev, found.st_ino))
        self._env = self._opened.env
        # LMDB maps the file: a page behind its end is a bus error, which nobody can catch
        needed = (self._env.info()["last_pgno"] + 1) * self._env.stat()["psize"]
        if found.st_size < needed:
            raise SourceError(
                f"{str(file)!r} is cut short",
                given=f"{found.st_size} bytes",
                expected=f"{needed} bytes",
            )
        try:
            with self._env.begin() as transaction:
                keys = list(transaction.cursor().iternext(keys=True, values=False))
        except lmdb.MapResizedError as error:
            raise SourceError(f"{str(file)!r} has grown while it is open", fix="close what reads it first") from error
        if not keys:
            raise SourceError(f"the LMDB at {path!r} holds no records")
        self.path = path
        self._keys = b"".join(keys)  # one text and offsets: a list of a million small objects is 60 MB
        self._ends = array("q", accumulate(map(len, keys), initial=0))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def key(self, index: int) -> bytes:
        """The key of record `index`."""
        return self._keys[self._ends[index] : self._ends[index + 1]]

    def same_records(self, other: LmdbRecords) -> bool:
        """Whether the other has the same keys, of the same database."""
        return self._opened is other._opened and self._keys == other._keys and self._ends == other._ends

    def get(self, indices: Iterable[int]) -> list[bytes]:
        """The values of records, by number.

        Raises:
            SampleError: a record is gone since the database was opened.
        """
        records: list[bytes] = []
        keys, ends = self._keys, self._ends
        with self._env.begin() as transaction:
            get = transaction.get
            for index in indices:
                record = get(keys[ends[index] : ends[index + 1]])
                if record is None:
                    raise SampleError(f"sample {index}: key {self.key(index)!r} is gone from {self.path!r}")
                records.append(record)
        return records


@contextmanager
def writing(path: str | Path) -> Generator[Transaction]:
    """A transaction that adds records to the LMDB in a folder, which is made if need be.

    Raises:
        MissingExtraError: the package lmdb is not installed.
    """
    if lmdb is None:
        raise MissingExtraError("lmdb", "lmdb", "writing an LMDB")
    Path(path).mkdir(parents=True, exist_ok=True)
    environment = lmdb.open(str(path), map_size=1 << 40)  # an upper bound; the file grows as it is filled
    try:
        with environment.begin(write=True) as transaction:
            yield transaction
    finally:
        environment.close()
