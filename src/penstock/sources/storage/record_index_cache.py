"""Cache of record indexes: building one means reading the whole file.

An entry is one file in ``~/.cache/penstock/indexes`` (``$XDG_CACHE_HOME/penstock/indexes``) per data file and format:
the state of the data file, a checksum, and the index. It is written under another name and then renamed, so that
processes can share the folder. A damaged entry, or one for another state of the file, is ignored.
"""

import contextlib
import hashlib
import json
import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from penstock.core import Indices
from penstock.core.atomic_files import make_folder, user_cache_dir, write_atomically
from penstock.sources.storage.byte_range import identifies_content
from penstock.sources.storage.local_bytes import read_file
from penstock.sources.storage.object_store import is_remote
from penstock.sources.storage.random_access_file import LocalFile, Opened

# First byte and number of bytes of each record.
Places = tuple[Indices, Indices]

# Fewer records are indexed as fast as an entry is read.
_MIN_RECORDS = 256

# Nanoseconds after a change in which a second change may get the same timestamp, as on file systems with a coarse
# clock. The state of such a file cannot be trusted yet.
_SETTLED = 2 * 10**9


def cached_record_index(path: str, file: Opened, what: str, find: Callable[[], Places]) -> Places:
    """Return the index of a file from the cache, or build and store it.

    Args:
        path: Path of the file.
        file: The open file. Its size and its time or ETag are its state.
        what: Name of the format.
        find: Builds the index.

    Raises:
        OSError: Raised by `find`.
        ValueError: Raised by `find`.
    """
    entry, state = _entry(path, what), _state(file)
    if state is None or entry is None:
        return find()
    index = _read(entry, state)
    if index is None:
        index = find()
        if len(index[0]) >= _MIN_RECORDS:
            _write(entry, state, index)
    return index


def _entry(path: str, what: str) -> Path | None:
    folder = user_cache_dir()
    if folder is None:
        return None
    place = path if is_remote(path) else os.path.realpath(path)
    return folder / "indexes" / hashlib.sha256(f"{what}\0{place}".encode(errors="replace")).hexdigest()[:40]


def _state(file: Opened) -> str | None:
    """Return a text that identifies the state of a file; None if nothing does."""
    if isinstance(file, LocalFile):
        return f"{file.size} bytes of {file.time}" if file.time < time.time_ns() - _SETTLED else None
    return f"{file.size} bytes of {file.tag}" if identifies_content(file.tag) else None


def _read(entry: Path, state: str) -> Places | None:
    try:
        head, _, data = read_file(str(entry)).tobytes().partition(b"\n")
        header = json.loads(head)
    except (OSError, ValueError):
        return None
    if header != {"state": state, "crc32": zlib.crc32(data), "bytes": len(data)}:
        return None
    starts, sizes = np.frombuffer(data, "<i8").astype(np.int64).reshape(2, -1)
    return starts, sizes


def _write(entry: Path, state: str, index: Places) -> None:
    """Write an entry; ignore a failure, since the cache is optional."""
    data = np.stack(index).astype("<i8").tobytes()
    head = json.dumps({"state": state, "crc32": zlib.crc32(data), "bytes": len(data)}).encode()
    with contextlib.suppress(OSError):
        make_folder(entry.parent)
        write_atomically(entry, [head, b"\n", data])
