"""CIFAR-10 binary files: records of a label byte and 3072 bytes of pixels."""

from collections.abc import Hashable
from pathlib import Path

import numpy as np

from penstock.core import Array
from penstock.errors import SourceError, SourceNotFoundError
from penstock.sources.formats.array_source import ArraySource
from penstock.sources.storage.byte_range import ByteRange, ObjectInfo
from penstock.sources.storage.disk_cache import fetch_cached
from penstock.sources.storage.file_stamps import file_stamps
from penstock.sources.storage.object_store import is_remote, list_prefix, opening

_PIXELS = (3, 32, 32)
_RECORD = 1 + 3 * 32 * 32


def open_cifar10(folder: str, prefix: str) -> ArraySource:
    """Read the records of all files whose name contains `prefix`, in the order of the names.

    The data set is held in memory (3 KB per record), so that reading a batch is one array indexing operation. If the
    folder has no such file, its subfolders are searched.

    Returns:
        Images, uint8 (3, 32, 32) with layout CHW, and classes, int32 (1,).

    Raises:
        SourceNotFoundError: The folder does not exist, or has no such file.
        SourceError: A file does not consist of whole records or cannot be read, or there are no records.
    """
    if not is_remote(folder) and not Path(folder).is_dir():
        raise SourceNotFoundError(f"file_root is not a folder: {folder!r}", fix="pass the folder of data_batch_1.bin")
    files = _files(folder, prefix)
    if not files:
        names = [] if is_remote(folder) else sorted(path.name for path in Path(folder).iterdir())[:8]
        raise SourceNotFoundError(
            f"no file in {folder!r} has {prefix!r} in its name",
            given=", ".join(names) or "an empty folder",
            fix='filename_prefix="data_batch_" for training, "test_batch" for tests',
        )
    # All sizes are checked before memory is allocated.
    counts = [_count(file) for file in files]
    if not sum(counts):
        raise SourceError(f"the files in {folder!r} with {prefix!r} in their names are empty")
    images = np.empty((sum(counts), *_PIXELS), np.uint8)
    labels = np.empty((sum(counts), 1), np.int32)
    start = 0
    for file, count in zip(files, counts, strict=True):
        records = _records(file, count)
        # A record is a label byte and 3072 bytes of pixels: 1024 each of red, green and blue, row by row (the layout of
        # https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version").
        labels[start : start + count] = records[:, :1]
        images[start : start + count].reshape(count, _RECORD - 1)[:] = records[:, 1:]
        start += count
    return ArraySource([images, labels], ["CHW", ""], f"{folder} ({', '.join(map(_name, files))})")


def stamp_of_cifar10(folder: str, prefix: str) -> Hashable:
    """Return a value that changes if `open_cifar10` would read something different."""
    if is_remote(folder) or not Path(folder).is_dir():
        return file_stamps(folder)
    return file_stamps(folder, *(file.path for file in _files(folder, prefix)))


def _files(folder: str, prefix: str) -> list[ObjectInfo]:
    """Return the files to read, in order.

    Raises:
        SourceError: A folder cannot be read.
    """
    folders, files = _listed(folder)
    matching = [file for file in files if prefix in _name(file)]
    return matching or [
        file for sub in folders for file in _listed(f"{folder.rstrip('/')}/{sub}")[1] if prefix in _name(file)
    ]


def _listed(folder: str) -> tuple[list[str], list[ObjectInfo]]:
    """Return the names of the subfolders and the files of a folder, sorted."""
    with opening(folder):
        if is_remote(folder):
            folders, files = list_prefix(folder)
        else:
            entries = list(Path(folder).iterdir())
            folders = [entry.name for entry in entries if entry.is_dir()]
            files = [ObjectInfo(str(entry), entry.stat().st_size, "") for entry in entries if entry.is_file()]
    return sorted(folders), sorted(files, key=_name)


def _name(file: ObjectInfo) -> str:
    return file.path.rpartition("/")[2]


def _records(file: ObjectInfo, count: int) -> Array:
    try:
        if is_remote(file.path):
            data = fetch_cached(ByteRange(file.path, etag=file.etag))
        else:
            data = np.fromfile(file.path, np.uint8, count * _RECORD)
    except OSError as error:
        raise SourceError(f"{file.path} cannot be read: {error.strerror}") from error
    # The size was checked before, but another process may have truncated the file since.
    if len(data) != count * _RECORD:
        raise SourceError(
            f"{file.path} became shorter while it was read", given=f"{len(data)} bytes", expected=f"{count * _RECORD}"
        )
    return data.reshape(count, _RECORD)


def _count(file: ObjectInfo) -> int:
    if file.size % _RECORD:
        raise SourceError(
            f"{file.path} is not a CIFAR-10 file",
            given=f"{file.size} bytes",
            expected=f"records of {_RECORD} bytes: a label and 3 x 32 x 32 pixels",
            fix="unpack cifar-10-binary.tar.gz again; other files need another filename_prefix",
        )
    return file.size // _RECORD
