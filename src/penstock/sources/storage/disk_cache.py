"""Disk cache of objects, for the next epoch, the next run and other processes.

An entry is one file, written under another name and then renamed, with a checksum of its content and the ETag of the
object. A damaged entry counts as missing. A full cache evicts random entries: with LRU, an epoch that visits everything
in turn would evict each entry just before its next use.
"""

import contextlib
import functools
import hashlib
import logging
import os
import random
import struct
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.core import Array, optional_import
from penstock.core.atomic_files import UNFINISHED, make_folder, user_cache_dir, write_atomically
from penstock.errors import SourceError, SourceNotFoundError, UsageError
from penstock.sources.storage.byte_range import ByteRange, identifies_content
from penstock.sources.storage.local_bytes import read_file, read_range
from penstock.sources.storage.object_store import fetch, head, is_remote
from penstock.sources.storage.sample_limit import bytes_of

_SUM = struct.Struct("<4sQ")  # b"PSC2", the checksum of what follows
_LENGTHS = struct.Struct("<QH")  # bytes of the data and of the ETag
_HEAD = _SUM.size + _LENGTHS.size
_MAGIC = b"PSC2"
# Seconds after which an unfinished file is considered left behind by a process that was killed.
_STALE = 600.0

_log = logging.getLogger("penstock")


class DiskCache:
    """Folder of entries that any number of processes share.

    Args:
        folder: Path of the folder; created if missing.
        size: Limit on the bytes of all entries. Each writing process may exceed it by 1/16 for a moment.

    Raises:
        MissingExtraError: xxhash is not installed.
    """

    def __init__(self, folder: str, size: int) -> None:
        self._xxh3: Any = optional_import.import_extra("xxhash", "stores", "the cache of remote files").xxh3_64
        self._folder, self._size = Path(folder), size
        self._total, self._unseen = 0, size  # so that the first write scans the folder
        self._usable = True
        self._lock = threading.Lock()

    def find(self, extent: ByteRange) -> tuple[Array, str] | None:
        """Return the bytes of a range and the ETag of its object; None if the entry is missing or damaged."""
        try:
            entry = read_file(self._place(extent))
        except OSError:
            return None
        if len(entry) < _HEAD:
            return None
        magic, checksum = _SUM.unpack_from(entry.data)
        length, tag = _LENGTHS.unpack_from(entry.data, _SUM.size)
        start = _HEAD + tag
        if magic != _MAGIC or len(entry) != start + length:
            return None
        if self._xxh3(entry.data[_SUM.size :]).intdigest() != checksum:
            return None
        return entry[start:], entry.data[_HEAD:start].tobytes().decode()

    def has(self, extent: ByteRange) -> bool:
        """Return True if a range has an entry, which may be damaged or outdated."""
        return os.path.exists(self._place(extent))  # noqa: PTH110  # a path costs more than the look

    def find_exact(self, extent: ByteRange) -> Array | None:
        """Return the bytes of a range with a known ETag; None if the entry is missing or has another ETag."""
        entry = self.find(extent) if extent.etag else None
        return entry[0] if entry is not None and entry[1] == extent.etag else None

    def store(self, extent: ByteRange, data: Array, tag: str) -> None:
        """Write an entry. After a failure, log a warning and stop writing."""
        name = tag.encode()
        size = _HEAD + len(name) + len(data)
        if not self._usable or size > self._size // 16:
            return
        rest = _LENGTHS.pack(len(data), len(name)) + name
        checksum = self._xxh3(rest)
        checksum.update(data.data)
        place = Path(self._place(extent))
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(place, [_SUM.pack(_MAGIC, checksum.intdigest()), rest, data.data])
        except OSError as error:
            self._usable = False
            _log.warning("objects are not kept in %s any more: %s", self._folder, error.strerror or error)
            return
        self._make_room(size)

    def _place(self, extent: ByteRange) -> str:
        stop = "" if extent.stop is None else extent.stop
        name = hashlib.sha256(f"{extent.path}\0{extent.start}\0{stop}".encode()).hexdigest()
        return f"{self._folder}/{name[:2]}/{name[2:42]}"

    def _make_room(self, size: int) -> None:
        with self._lock:
            self._total += size
            self._unseen += size
            if self._unseen <= self._size // 16:
                return
            entries = self._entries()
            self._total, self._unseen = sum(bytes_ for _, bytes_ in entries), 0
            random.shuffle(entries)
            while entries and self._total > self._size - self._size // 16:
                path, bytes_ = entries.pop()
                with contextlib.suppress(OSError):  # another process was faster
                    os.unlink(path)  # noqa: PTH108  # a str, as `scandir` returns it
                self._total -= bytes_

    def _entries(self) -> list[tuple[str, int]]:
        """Return paths and sizes of the entries, and remove unfinished files of killed processes."""
        entries: list[tuple[str, int]] = []
        for folder in self._folder.glob("??"):
            with contextlib.suppress(OSError), os.scandir(folder) as listing:
                for entry in listing:
                    with contextlib.suppress(OSError):
                        info = entry.stat()
                        if not entry.name.endswith(UNFINISHED):
                            entries.append((entry.path, info.st_size))
                        elif time.time() - info.st_mtime > _STALE:
                            os.unlink(entry.path)  # noqa: PTH108  # same
        return entries


def fetch_cached(extent: ByteRange) -> Array:
    """Read a byte range of a local file or an object; of an object from the cache if it has not changed.

    Raises:
        OSError: The range cannot be read.
    """
    if not is_remote(extent.path):
        return (
            read_file(extent.path, extent.limited)
            if extent.stop is None
            else read_range(extent.path, extent.start, extent.stop)
        )
    cache = configured_cache()
    entry = None if cache is None else cache.find(extent)
    if entry is not None and extent.etag and entry[1] == extent.etag:
        return entry[0]
    # Without the object's current ETag, the request is conditional on the cached one.
    result = fetch(extent, unless="" if entry is None or extent.etag else entry[1])
    if result is None:
        assert entry is not None
        return entry[0]
    data, tag = result
    if cache is not None and identifies_content(tag):
        cache.store(extent, data, tag)
    return data


def lookup_many(extents: Sequence[ByteRange]) -> list[Array | None]:
    """Return the bytes of the ranges that are in the cache with their ETag, None for others."""
    cache = configured_cache() if extents else None
    return [None if cache is None else cache.find_exact(extent) for extent in extents]


def uncached(extents: Sequence[ByteRange]) -> Sequence[ByteRange]:
    """Return the ranges that are not in the cache and should be prefetched."""
    cache = configured_cache()
    return extents if cache is None else [extent for extent in extents if not (extent.etag and cache.has(extent))]


def read_bytes(path: str) -> bytes:
    """Read a whole file or object.

    Raises:
        OSError: It cannot be read.
    """
    if not is_remote(path):
        return read_file(path).tobytes()
    return fetch_cached(ByteRange(path, etag=head(path).etag)).tobytes()


def read_input(path: str, name: str, fix: str | None = None) -> bytes:
    """Read a file or object that a definition names, such as a list or an index.

    Args:
        path: Path of the file or object.
        name: Name of it for messages, such as that of an argument.
        fix: Fix to suggest if it does not exist.

    Raises:
        SourceNotFoundError: It does not exist.
        SourceError: It cannot be read.
    """
    try:
        return read_bytes(path)
    except FileNotFoundError as error:
        raise SourceNotFoundError(f"{name} {path!r} does not exist", fix=fix) from error
    except OSError as error:
        raise SourceError(f"{name} {path!r} cannot be read: {error.strerror}") from error


def configured_cache() -> DiskCache | None:
    """Return the cache of the environment: ``PENSTOCK_CACHE_SIZE``, such as 50GB, and ``PENSTOCK_CACHE_DIR``.

    Raises:
        UsageError: The size is invalid, or no folder is known.
    """
    size = os.environ.get("PENSTOCK_CACHE_SIZE")
    if not size:
        return None
    folder = os.environ.get("PENSTOCK_CACHE_DIR")
    if not folder:
        own = user_cache_dir()
        if own is None:
            raise UsageError("PENSTOCK_CACHE_SIZE keeps objects in a home, and there is none", fix="PENSTOCK_CACHE_DIR")
        with contextlib.suppress(OSError):
            make_folder(own)  # before one that others may enter is made on the way to it
        folder = str(own / "objects")
    return _opened(folder, size)


@functools.lru_cache(maxsize=8)
def _opened(folder: str, size: str) -> DiskCache | None:
    count = bytes_of("PENSTOCK_CACHE_SIZE", size)
    return DiskCache(folder, count) if count else None
