"""Stamps of files: values that change when a file is written."""

import hashlib
import os
from collections.abc import Hashable, Iterable

from penstock.core.user_callbacks import tracing_variable
from penstock.sources.storage.byte_range import identifies_content
from penstock.sources.storage.object_store import is_remote

# Two 64-bit integers, or None if nothing tells whether a file has changed.
SampleState = tuple[int, int] | None

# Stamp of all objects while a definition is traced. Only listings and requests could tell whether objects have changed,
# and each of the traces of a definition, one per shard, would repeat them.
remote_stamp = tracing_variable("remote_stamp")


def file_stamps(*paths: str | bytes | os.PathLike[str]) -> Hashable:
    """Return a value that changes when a file is written, or when an entry of a folder is added, removed or renamed.

    It costs one `stat` per path. A path that does not exist has a stamp, too. Objects of a store have another stamp in
    each definition.
    """
    return tuple(map(_stamp, paths))


def file_state(files: Iterable[tuple[str, str]]) -> SampleState:
    """Return a value that changes when files are written, the same for copies that keep the time of modification.

    Args:
        files: Path and ETag of each file; local files have no ETag.

    Returns:
        None if a file does not exist, or if nothing but the size of an object is known.
    """
    states: list[tuple[int, int]] = []
    for path, tag in files:
        if tag and not identifies_content(tag):
            return None
        if tag:
            states.append((int.from_bytes(hashlib.sha256(tag.encode()).digest()[:7]), 0))
            continue
        try:
            status = os.stat(path)  # noqa: PTH116  # called for each sample
        except (OSError, ValueError):  # an object without a tag, too
            return None
        states.append((status.st_mtime_ns, status.st_size))
    if len(states) == 1:
        return states[0]
    return int.from_bytes(hashlib.sha256(repr(states).encode()).digest()[:7]), len(states)


def check_unchanged(path: str, stamp: Hashable) -> None:
    """Check that a file still has a stamp.

    Raises:
        ValueError: It has been written to.
    """
    if file_stamps(path) != stamp:
        raise ValueError("the file has been written to since the data set was opened")


def _stamp(path: str | bytes | os.PathLike[str]) -> Hashable:
    if is_remote(path):
        return remote_stamp.get() or object()
    try:
        status = os.stat(path)  # noqa: PTH116  # also of a name that is no valid text
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size
