"""Digest of the content of a few samples.

Fingerprints do not depend on the content of files, so that a state resumes at once wherever the data are. Files of a
cache, which any data set may use, need more: two folders may agree in names, labels, sizes and times of modification,
such as raw images of equal size that a build with `SOURCE_DATE_EPOCH` has written. So do processes and input hosts,
which may each have a copy of the data.
"""

import os
from collections.abc import Sequence
from functools import partial
from itertools import chain

import numpy as np

from penstock.core import short_digest
from penstock.errors import PenstockError
from penstock.sources.source import Source
from penstock.sources.storage.byte_range import ByteRange
from penstock.sources.storage.disk_cache import fetch_cached
from penstock.sources.storage.object_store import head, is_remote
from penstock.sources.storage.store_requests import map_or_raise

# Samples to look at. Their number is constant, so that a data set of any size opens equally fast.
_SAMPLES = 16

# Blocks to read of all files together, and at least of each: headers are often equal, and so are the ends of padded
# images, but hardly the middle, too. Together at most 192 KiB.
_BLOCKS, _BLOCKS_PER_FILE, _BLOCK_BYTES = 48, 3, 4096


def sample_digest(source: Source) -> str:
    """Return a digest of the content of samples that are spread evenly over a data set, independent of its location.

    It reads at most 48 blocks of 4 KiB: the beginning, the middle and the end of 16 files, or more of each if there are
    fewer files. Samples that are not in files are read whole. What cannot be read counts with its path, so that two
    data sets that both cannot be read differ.
    """
    indices = _indices(source)
    files = [_files(source, index) for index in indices]
    paths = list(dict.fromkeys(path for group in files for path in group))
    blocks = max(_BLOCKS_PER_FILE, _BLOCKS // max(len(paths), 1))
    # The blocks of remote files are requested at once. For local ones, threads cost more than they save.
    remote = any(map(is_remote, paths))
    extents = chain.from_iterable(map_or_raise(partial(_blocks, count=blocks), paths, concurrent=remote))
    read: list[bytes] = map_or_raise(_content, extents, concurrent=remote)
    values = [_values(source, index) for index, group in zip(indices, files, strict=True) if not group]
    return short_digest(*[f"{len(part)} ".encode() + part for part in (*read, *values)])


def file_digests(source: Source) -> dict[int, str]:
    """Return a digest of the files of samples that are spread evenly over a data set, by index.

    It reads the same blocks as `sample_digest`. Samples that are not in files, or whose file cannot be read, are left
    out: the rows of a file that is missing in one process can be computed in another.
    """
    files = {index: group for index in _indices(source) if (group := _files(source, index))}
    paths = list(dict.fromkeys(path for group in files.values() for path in group))
    blocks = max(_BLOCKS_PER_FILE, _BLOCKS // max(len(paths), 1))
    digests = map_or_raise(partial(_file_digest, count=blocks), paths, concurrent=any(map(is_remote, paths)))
    known = dict(zip(paths, digests, strict=True))
    readable = {index: group for index, group in files.items() if all(map(known.get, group))}
    return {index: " ".join(map(known.__getitem__, group)) for index, group in readable.items()}


def _indices(source: Source) -> list[int]:
    count = min(_SAMPLES, len(source))
    return [number * (len(source) - 1) // max(count - 1, 1) for number in range(count)]


def _file_digest(path: str, count: int) -> str:
    """Return a digest of some blocks of a file; "" if it cannot be read."""
    blocks = _blocks(path, count)
    try:
        return short_digest(*map(fetch_cached, blocks)) if all(extent.stop for extent in blocks) else ""
    except (OSError, ValueError, PenstockError):
        return ""


def _files(source: Source, index: int) -> Sequence[str]:
    """Return the path of the file of a sample, of the first and the last one if it has several; nothing for others."""
    path = source.path(index)
    if path is not None:
        return [path]
    extents = source.byte_ranges(np.array([index]))
    return [extents[0].path, extents[-1].path] if extents else []


def _blocks(path: str, count: int) -> list[ByteRange]:
    """Return the blocks of a file to look at; an empty one if its size is unknown."""
    try:
        size = head(path).size if is_remote(path) else os.stat(path).st_size  # noqa: PTH116  # any text
    except (OSError, ValueError, PenstockError):
        return [ByteRange(path, 0, 0)]
    if size <= count * _BLOCK_BYTES:
        return [ByteRange(path, 0, size)] if size else []
    starts = [number * (size - _BLOCK_BYTES) // (count - 1) for number in range(count)]
    return [ByteRange(path, start, start + _BLOCK_BYTES) for start in starts]


def _content(extent: ByteRange) -> bytes:
    """Return the bytes of a block, or the path if it cannot be read."""
    try:
        if extent.stop:
            return fetch_cached(extent).tobytes()
    except (OSError, ValueError, PenstockError):
        pass
    return b"unreadable: " + os.fsencode(extent.path)


def _values(source: Source, index: int) -> bytes:
    """Return the values of a sample as bytes, or its description if it cannot be read."""
    try:
        columns, errors = source.read_tolerant(np.array([index]), [None] * len(source.specs))
    except PenstockError:
        columns, errors = (), {0: None}
    if errors:
        return f"unreadable: {source.describe(index)}".encode(errors="surrogateescape")
    return b"".join(np.asarray(column[0]).tobytes() for column in columns)
