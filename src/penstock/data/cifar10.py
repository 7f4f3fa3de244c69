"""CIFAR-10 in its binary version: files of records, a label byte and 3072 bytes of pixels each."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

import numpy as np

from penstock.data.arrays import ArraySource
from penstock.data.source import Array, stamp_of
from penstock.errors import SourceError, SourceNotFoundError

_PIXELS = (3, 32, 32)
_RECORD = 1 + 3 * 32 * 32


def open_cifar10(folder: str, prefix: str) -> ArraySource:
    """The records of all files whose name contains `prefix`, file by file in the order of the names.

    They are held in memory, 3 KB a record, so that a batch is one indexing of an array. Where the folder itself has no
    such file, those in its sub-folders are taken.

    Returns:
        Images, uint8 (3, 32, 32) with layout CHW, and class numbers, int32 (1,).

    Raises:
        SourceNotFoundError: there is no such folder, or no such file in it.
        SourceError: a file does not consist of whole records, or cannot be read, or there are none.
    """
    root = Path(folder)
    if not root.is_dir():
        raise SourceNotFoundError(f"file_root is no folder: {folder!r}", fix="the folder that has data_batch_1.bin")
    paths = _paths(root, prefix)
    if not paths:
        raise SourceNotFoundError(
            f"no file in {folder!r} has {prefix!r} in its name",
            given=", ".join(sorted(path.name for path in root.iterdir())[:8]) or "an empty folder",
            fix='filename_prefix="data_batch_" for training, "test_batch" for tests',
        )
    counts = [_count(path) for path in paths]  # before memory is taken
    if not sum(counts):
        raise SourceError(f"the files in {folder!r} with {prefix!r} in their names are empty")
    images = np.empty((sum(counts), *_PIXELS), np.uint8)
    labels = np.empty((sum(counts), 1), np.int32)
    start = 0
    for path, count in zip(paths, counts, strict=True):
        records = _records(path, count)
        labels[start : start + count] = records[:, :1]
        images[start : start + count].reshape(count, -1)[:] = records[:, 1:]
        start += count
    return ArraySource([images, labels], ["CHW", ""], f"{folder} ({', '.join(path.name for path in paths)})")


def stamp_of_cifar10(folder: str, prefix: str) -> Hashable:
    """What changes when `open_cifar10` would read something else."""
    root = Path(folder)
    return stamp_of(root, *_paths(root, prefix)) if root.is_dir() else None


def _paths(root: Path, prefix: str) -> list[Path]:
    return _matching(root, prefix) or [
        path for sub in sorted(filter(Path.is_dir, root.iterdir())) for path in _matching(sub, prefix)
    ]


def _matching(folder: Path, prefix: str) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if prefix in path.name and path.is_file())
    except OSError as error:
        raise SourceError(f"{folder} cannot be read: {error.strerror}") from error


def _records(path: Path, count: int) -> Array:
    try:
        data = np.fromfile(path, np.uint8, count * _RECORD)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) != count * _RECORD:
        raise SourceError(
            f"{path} became shorter while it was read", given=f"{len(data)} bytes", expected=f"{count * _RECORD}"
        )
    return data.reshape(count, _RECORD)


def _count(path: Path) -> int:
    size = path.stat().st_size
    if size % _RECORD:
        raise SourceError(
            f"{path} is no CIFAR-10 file",
            given=f"{size} bytes",
            expected=f"records of {_RECORD} bytes: a label and 3 x 32 x 32 pixels",
            fix="unpack cifar-10-binary.tar.gz again; other files need another filename_prefix",
        )
    return size // _RECORD
