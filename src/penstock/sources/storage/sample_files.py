"""Store of computed samples in files, which processes share.

A store is two files in a folder, named by a key: ``KEY.data`` holds records one after the other, ``KEY.index`` an entry
of 64 bytes per record. A record is the shapes of its arrays followed by their bytes. Processes append both under a lock
of the index, the record first, and read the entries that others have appended since the last look. Both carry
checksums, which are checked at each read: a damaged record is computed and appended again.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import shutil
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array, Indices, Spec
from penstock.core.file_lock import holding_lock
from penstock.core.positional_io import pread_into, pwrite
from penstock.errors import ResourceError
from penstock.sources.storage.file_stamps import SampleState
from penstock.sources.storage.sample_limit import bytes_text
from penstock.sources.storage.sample_store import Record, SampleStore

# An entry: index of the sample, its state (two integers), offset and length of the record, its checksum, zero, and the
# checksum of the entry.
_WORDS = 8
_ENTRY_BYTES = 8 * _WORDS

# Arrays in a record begin at multiples of it, so that they are aligned for all dtypes.
_ALIGN = 64

# Share of the disk that stays free if no limit is given.
_FREE_SHARE = 0.05

# Windows changes the ends of lines otherwise.
_BINARY = getattr(os, "O_BINARY", 0)

_log = logging.getLogger("penstock")


class FileStore(SampleStore):
    """Records in a pair of files.

    Args:
        folder: Folder of the files; created if missing.
        key: Identifies what is stored: data set, definition and versions.
        limit: Limit on the bytes of all files in the folder; None keeps a part of the disk free.
        specs: Dtype and rank of each array of a record.

    Raises:
        ResourceError: The files can neither be created nor read.
    """

    def __init__(self, folder: str, key: str, limit: int | None, specs: Sequence[Spec]) -> None:
        self._folder, self._limit = Path(folder), limit
        self._kinds = [(spec.dtype, len(spec.shape)) for spec in specs]
        # The file of the index is also the lock.
        self._writable = True
        self._index, self._data = self._open(f"{key}.index"), self._open(f"{key}.data")
        weakref.finalize(self, _close, self._index, self._data)
        self._lock = threading.Lock()
        self._entries = np.zeros((0, _WORDS), np.int64)
        self._known = 0  # entries of the file that have been read
        self._rows: dict[int, int] = {}  # by index of the sample, the row of its last entry
        self._update()

    def _open(self, name: str) -> int:
        path = self._folder / name
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT | _BINARY, 0o666)
        except OSError as error:
            # A file system that is read-only may hold a complete cache.
            self._writable = False
            try:
                return os.open(path, os.O_RDONLY | _BINARY)
            except OSError:
                raise ResourceError(
                    "the cache cannot be opened", given=f"{path}: {error.strerror}", fix="a folder that you may write"
                ) from error

    def find(self, indices: Indices, states: Sequence[SampleState]) -> list[Record | None]:
        """Return the records of samples, None for those that are not stored undamaged in the given state."""
        self._update()
        return [self._record(index, state) for index, state in zip(indices.tolist(), states, strict=True)]

    def has(self, indices: Indices) -> NDArray[np.bool_]:
        """Return True for each sample that is stored in any state."""
        return np.array([index in self._rows for index in indices.tolist()], np.bool_)

    def add(self, indices: Indices, states: Sequence[SampleState], records: Sequence[Record]) -> None:
        """Append records, as far as there is room. After a failure, log a warning and stop writing."""
        if not self._writable or not len(records):
            return
        wanted = zip(indices.tolist(), states, records, strict=True)
        bodies = [(index, state, self._body(record)) for index, state, record in wanted if state is not None]
        try:
            # Locks of files are per descriptor, which the threads of the process share.
            with self._lock, holding_lock(self._index):
                room = self._room()
                offset = _round_up(os.fstat(self._data).st_size, _ALIGN)
                entries: list[Array] = []
                for index, state, body in bodies:
                    if len(body) + _ENTRY_BYTES <= room:
                        _write(self._data, body, offset)
                        entries.append(_entry(index, state, offset, body))
                        offset += _round_up(len(body), _ALIGN)
                        room -= _round_up(len(body), _ALIGN) + _ENTRY_BYTES
                # A process that was killed may have left a part of an entry.
                whole = os.fstat(self._index).st_size // _ENTRY_BYTES * _ENTRY_BYTES
                if entries:
                    _write(self._index, np.concatenate(entries).view(np.uint8), whole)
        except OSError as error:
            self._writable = False
            _log.warning("samples are not stored in %s any more: %s", self._folder, error.strerror or error)

    def summary(self) -> str:
        """Describe the content in a few words."""
        self._update()
        return f"{len(self._rows)} samples, {bytes_text(os.fstat(self._data).st_size)}"

    def _update(self) -> None:
        """Read the entries that have been appended since the last look."""
        if os.fstat(self._index).st_size // _ENTRY_BYTES == self._known:
            return
        with self._lock:
            count = os.fstat(self._index).st_size // _ENTRY_BYTES
            if count < self._known:  # somebody has made the file shorter
                self._known, self._rows = 0, {}
            size = (count - self._known) * _ENTRY_BYTES
            fresh = _read(self._index, size, self._known * _ENTRY_BYTES).view(np.int64).reshape(-1, _WORDS)
            first, self._known = self._known, self._known + len(fresh)
            if self._known > len(self._entries):
                grown = np.zeros((2 * self._known, _WORDS), np.int64)
                grown[:first] = self._entries[:first]
                self._entries = grown
            self._entries[first : self._known] = fresh
            intact = np.flatnonzero(_entry_checksums(fresh) == fresh[:, -1])
            # The last entry of a sample counts: it replaces one that was damaged or outdated.
            self._rows.update(zip(fresh[intact, 0].tolist(), (first + intact).tolist(), strict=True))

    def _record(self, index: int, state: SampleState) -> Record | None:
        """Read a record; None if it is missing, damaged, or of another state."""
        row = self._rows.get(index)
        if row is None or state is None:
            return None
        own, *stored, offset, length, checksum, _, _ = self._entries[row].tolist()
        if own != index or tuple(stored) != state:
            return None
        body = _read(self._data, length, offset)
        if len(body) != length or _checksum(body) != checksum:
            return None
        return self._split(body)

    def _body(self, record: Record) -> Array:
        """Return the bytes of a record."""
        shapes = np.array([extent for piece in record for extent in piece.shape], np.int64)
        starts, size = self._starts([piece.nbytes for piece in record])
        body = np.zeros(size, np.uint8)
        body[: shapes.nbytes] = shapes.view(np.uint8)
        for piece, start in zip(record, starts, strict=True):
            body[start : start + piece.nbytes].view(piece.dtype).reshape(piece.shape)[...] = piece
        return body

    def _split(self, body: Array) -> Record:
        """Return the arrays of a record."""
        ranks = [rank for _, rank in self._kinds]
        extents = iter(body[: 8 * sum(ranks)].view(np.int64).tolist())
        shapes = [tuple([next(extents) for _ in range(rank)]) for rank in ranks]
        sizes = [dtype.itemsize * math.prod(shape) for (dtype, _), shape in zip(self._kinds, shapes, strict=True)]
        starts, _ = self._starts(sizes)
        pieces = zip(self._kinds, shapes, starts, sizes, strict=True)
        return [body[start : start + size].view(dtype).reshape(shape) for (dtype, _), shape, start, size in pieces]

    def _starts(self, sizes: Sequence[int]) -> tuple[list[int], int]:
        """Return the first byte of each array of a record, and the number of all bytes."""
        starts: list[int] = []
        end = 8 * sum(rank for _, rank in self._kinds)
        for size in sizes:
            starts.append(_round_up(end, _ALIGN))
            end = starts[-1] + size
        return starts, end

    def _room(self) -> float:
        """Return the number of bytes that may still be written."""
        if self._limit is None:
            disk = shutil.disk_usage(self._folder)
            return disk.free - _FREE_SHARE * disk.total
        # Other definitions may have files in the folder. Their processes do not wait for this lock, so that each may
        # exceed the limit by one batch.
        with os.scandir(self._folder) as listing:
            return self._limit - sum(entry.stat().st_size for entry in listing)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _read(file: int, size: int, offset: int) -> Array:
    """Read bytes; fewer at the end of the file."""
    data = np.empty(size, np.uint8)
    done = 0
    while done < size and (count := pread_into(file, data.data[done:], offset + done)):
        done += count
    return data[:done]


def _write(file: int, data: Array, offset: int) -> None:
    done = 0
    while done < len(data):
        done += pwrite(file, data.data[done:], offset + done)


def _entry(index: int, state: tuple[int, int], offset: int, body: Array) -> Array:
    entry = np.array([[index, *state, offset, len(body), _checksum(body), 0, 0]], np.int64)
    entry[:, -1] = _entry_checksums(entry)
    return entry


def _checksum(body: Array) -> int:
    """Return a checksum of a record: of its words by column, added up at the speed of memory."""
    words = body[: len(body) // 512 * 512].view(np.uint64).reshape(-1, 64)
    digest = hashlib.blake2b(np.add.reduce(words, axis=0).tobytes(), digest_size=8)
    digest.update(body[words.nbytes :].data)
    return int.from_bytes(digest.digest(), signed=True)


def _entry_checksums(entries: Array) -> Array:
    """Return the checksum of each entry, which follows from its other words."""
    # Finalizer of MurmurHash3: each bit of a word changes about half of the bits of the result.
    words = entries[:, :-1].view(np.uint64)
    result = np.full(len(entries), 0x9E3779B97F4A7C15, np.uint64)
    for column in range(words.shape[1]):
        result = (result ^ words[:, column]) * np.uint64(0xFF51AFD7ED558CCD)
        result ^= result >> np.uint64(33)
        result *= np.uint64(0xC4CEB9FE1A85EC53)
        result ^= result >> np.uint64(33)
    return result.view(np.int64)
