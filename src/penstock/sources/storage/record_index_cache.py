"""Where the records of a file lie, kept for the next time: finding them means to walk through the whole file.

An entry is one file in ``~/.cache/penstock/indexes`` (``$XDG_CACHE_HOME/penstock/indexes``), per data file and per what
was looked for: the state of the data file, a checksum, and the places. It is written under another name and then
renamed, so any number of processes share it. One that is damaged, or belongs to another state of the file, does not
count.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.core.atomic_files import make_folder, user_cache_dir, write_atomically
from penstock.sources.storage.object_store import is_remote
from penstock.sources.storage.random_access_file import LocalFile, Opened

Places = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Where records begin, and their bytes."""

_WORTH = 256
"""How many records are worth an entry: fewer are found as fast."""
_SETTLED = 2 * 10**9
"""Nanoseconds after a change in which another one may show the same time."""


def cached_record_index(path: str, file: Opened, what: str, find: Callable[[], Places]) -> Places:
    """What `find` gives, or gave for the same state of the file: its size, and its time or ETag.

    Args:
        path: of the file.
        file: the same, open.
        what: what is looked for in it.
        find: finds it.

    Raises:
        OSError: of `find`.
        ValueError: likewise.
    """
    entry, state = _entry(path, what), _state(file)
    if state is None or entry is None:
        return find()
    found = _read(entry, state)
    if found is None:
        found = find()
        if len(found[0]) >= _WORTH:
            _write(entry, state, found)
    return found


def _entry(path: str, what: str) -> Path | None:
    folder = user_cache_dir()
    if folder is None:
        return None
    place = path if is_remote(path) else os.path.realpath(path)
    return folder / "indexes" / hashlib.sha256(f"{what}\0{place}".encode(errors="replace")).hexdigest()[:40]


def _state(file: Opened) -> str | None:
    """What tells a state of a file from another; None where nothing does."""
    if isinstance(file, LocalFile):
        return f"{file.size} bytes of {file.time}" if file.time < time.time_ns() - _SETTLED else None
    return f"{file.size} bytes of {file.tag}" if file.tag else None


def _read(entry: Path, state: str) -> Places | None:
    try:
        head, _, data = entry.read_bytes().partition(b"\n")
        said = json.loads(head)
    except (OSError, ValueError):
        return None
    if said != {"state": state, "crc32": zlib.crc32(data), "bytes": len(data)}:
        return None
    starts, sizes = np.frombuffer(data, "<i8").astype(np.int64).reshape(2, -1)
    return starts, sizes


def _write(entry: Path, state: str, found: Places) -> None:
    """Write an entry; where that fails, there is none."""
    data = np.stack(found).astype("<i8").tobytes()
    head = json.dumps({"state": state, "crc32": zlib.crc32(data), "bytes": len(data)}).encode()
    with contextlib.suppress(OSError):
        make_folder(entry.parent)
        write_atomically(entry, [head, b"\n", data])
