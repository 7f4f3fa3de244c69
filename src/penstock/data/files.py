"""Files with labels: a folder per class, a list of paths, or a text file that lists them."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
from collections.abc import Callable, Hashable, Iterator, Sequence
from fnmatch import translate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.data.order import Indices
from penstock.data.source import Array, Column, Source, stamp_of
from penstock.data.spec import Spec
from penstock.errors import SampleError, SourceError, SourceNotFoundError

_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_log = logging.getLogger("penstock")


class FileSource(Source):
    """The bytes of files, and an int32 label for each.

    Args:
        root: the folder to which the names are relative; "" where they are complete.
        names: the files, as bytes, in the order of the data set.
        labels: one per file.
    """

    specs = (Spec(np.dtype(np.uint8), (None,)), Spec(np.dtype(np.int32), (1,)))

    def __init__(self, root: str, names: Sequence[bytes], labels: Sequence[int] | NDArray[np.int32]) -> None:
        self._root = os.fsencode(root)
        self._names = np.array(names, dtype=np.bytes_)  # 25 bytes a file, where a list of str needs 100
        self._labels = np.asarray(labels, np.int32).reshape(-1, 1)

    def __len__(self) -> int:
        return len(self._names)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """The bytes of the files, and their labels."""
        return [self.content(index) for index in indices.tolist()], np.take(
            self._labels, indices, axis=0, out=out[1], mode="clip"
        )

    @property
    def labels(self) -> list[int]:
        """The label of each file."""
        return self._labels.ravel().tolist()

    def content(self, index: int) -> Array:
        """The bytes of file `index`.

        Raises:
            SampleError: it cannot be read.
        """
        path = self._path(index)
        try:
            return _content(path)
        except (OSError, ValueError) as error:
            name = os.fsdecode(path)
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            what = f"sample {index} ({name}) cannot be read: {reason}"
            raise SampleError(what, index=index, source=name, path=name) from error

    def _path(self, index: int) -> bytes:
        return os.path.join(self._root, self._names[index])  # noqa: PTH118  # bytes: names need not be valid text

    def describe(self, index: int) -> str:
        """The file's path."""
        return os.fsdecode(self._path(index))

    path = describe

    def info(self, index: int) -> str:
        """The file's path as the data set has it: relative to its root."""
        return os.fsdecode(self._names[index])

    def same_data(self, other: Source) -> bool:
        """Whether the same files have the same labels."""
        if not isinstance(other, FileSource) or self._root != other._root:  # noqa: SLF001  # one class
            return False
        pairs = ((self._names, other._names), (self._labels, other._labels))  # noqa: SLF001  # one class
        return all(mine is theirs or np.array_equal(mine, theirs) for mine, theirs in pairs)

    def fingerprint(self) -> str:
        """The names below their common folder, and the labels."""
        names: list[bytes] = self._names.tolist()
        absolute = all(map(os.path.isabs, names))  # they begin with where the data set is mounted
        folder = os.path.commonpath([os.path.dirname(name) for name in names]) if absolute else b""  # noqa: PTH120  # bytes
        digest = hashlib.sha256(b"\0".join(name[len(folder) :] for name in names) + self._labels.tobytes())
        return f"files:{len(self)}:{digest.hexdigest()[:16]}"


def from_root(
    root: str, file_filters: tuple[str, ...], dir_filters: tuple[str, ...], case_sensitive: bool
) -> FileSource:
    """The files of the folders directly below `root`, labelled with the number of their folder.

    Folders and files are sorted by the bytes of their names. Every folder has a number, an empty one too. Pipes,
    sockets and devices are left out, with a warning.

    Raises:
        SourceNotFoundError: `root` is no folder.
        SourceError: no file in it matches, or a folder cannot be read.
    """
    if not Path(root).is_dir():
        raise SourceNotFoundError(f"file_root is no folder: {root!r}")
    top = os.fsencode(root)
    wanted = _matcher(dir_filters, case_sensitive=True)
    folders = sorted(entry.name for entry in _entries(top) if wanted(entry.name) and _kind(entry) == stat.S_IFDIR)
    wanted = _matcher(file_filters, case_sensitive=case_sensitive)
    names: list[bytes] = []
    labels: list[int] = []
    others: list[bytes] = []
    for label, folder in enumerate(folders):
        files: list[bytes] = []
        for entry in _entries(os.path.join(top, folder)):  # noqa: PTH118  # bytes
            if wanted(entry.name):
                kind = _kind(entry)
                if kind in (stat.S_IFREG, None):
                    files.append(folder + b"/" + entry.name)
                elif kind != stat.S_IFDIR:
                    others.append(entry.path)
        names += sorted(files)
        labels += [label] * len(files)
    if others:
        _log.warning(
            "%d entries below %s are no files (pipes, sockets, devices) and are left out, such as %s",
            len(others), root, os.fsdecode(min(others)),
        )  # fmt: skip
    if not names:
        raise SourceError(
            f"no files found in {root!r}",
            given=f"{len(folders)} sub-folders, filters {', '.join(file_filters)}",
            expected="one sub-folder per class, with files that match",
            fix="give the folder above the class folders, or file_filters that match",
        )
    return FileSource(root, names, labels)


def _entries(folder: bytes) -> Iterator[os.DirEntry[bytes]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError as error:
        raise SourceError(
            f"the folder {os.fsdecode(folder)!r} cannot be read: {error.strerror}",
            fix="the right to read it, or dir_filters that leave it out",
        ) from error


def stamp_of_root(root: str) -> Hashable:
    """What changes when `from_root` would find other files: the stamps of the folder and of the folders in it."""
    if not Path(root).is_dir():
        return None
    return stamp_of(root, *sorted(each.path for each in _entries(os.fsencode(root)) if _kind(each) == stat.S_IFDIR))


def _matcher(patterns: tuple[str, ...], *, case_sensitive: bool) -> Callable[[bytes], bool]:
    """Whether one of the patterns, or none that there is, matches a name."""
    if not patterns:
        return lambda _: True
    found = re.compile("|".join(translate(each if case_sensitive else each.lower()) for each in patterns))
    if case_sensitive:
        return lambda name: found.match(os.fsdecode(name)) is not None
    return lambda name: found.match(os.fsdecode(name).lower()) is not None


def _kind(entry: os.DirEntry[bytes]) -> int | None:
    """What an entry is, or the link leads to; None for a link that leads nowhere, to itself, or where nobody may look.

    Such a link stays in the data set: it is a sample that cannot be read, and says so.
    """
    if entry.is_file(follow_symlinks=False):
        return stat.S_IFREG
    try:
        return stat.S_IFMT(entry.stat().st_mode)
    except OSError:
        return None


def _content(path: bytes) -> Array:
    """The bytes of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no regular file, became shorter while it was read, or its path is none.
    """
    descriptor = os.open(path, _READ)  # without waiting: nobody may ever write to a pipe
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise ValueError("it is no file, but a folder, a pipe, a socket or a device")
        data = os.read(descriptor, info.st_size)
        while len(data) < info.st_size:
            part = os.read(descriptor, info.st_size - len(data))
            if not part:
                raise ValueError(f"it became shorter while it was read: {len(data)} bytes of {info.st_size}")
            data += part
    finally:
        os.close(descriptor)
    return np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)


def from_files(root: str, files: tuple[str, ...], labels: tuple[int, ...] | None) -> FileSource:
    """The files named, each labelled as given, or with its number.

    Raises:
        SourceError: there are none, or the labels are not as many.
        SourceNotFoundError: the first file does not exist.
    """
    if not files:
        raise SourceError("files is empty", expected="at least one path")
    if labels is not None and len(labels) != len(files):
        raise SourceError(f"{len(labels)} labels for {len(files)} files", fix="give one label per file")
    numbers = range(len(files)) if labels is None else labels
    wrong = next((number for number in numbers if not -(2**31) <= number < 2**31), None)
    if wrong is not None:
        raise SourceError("a label is a number of 32 bits", given=wrong)
    return _checked(FileSource(root, [os.fsencode(file) for file in files], numbers))


def from_tree(root: str, file_filter: str) -> FileSource:
    """The files in a folder and in the folders directly below it, each labelled with 0.

    The folder's own come first, then those of its folders; all are sorted by the bytes of their names.

    Raises:
        SourceNotFoundError: `root` is no folder.
        SourceError: no file in it matches, or a folder cannot be read.
    """
    if not Path(root).is_dir():
        raise SourceNotFoundError(f"file_root is no folder: {root!r}")
    top = os.fsencode(root)
    wanted = _matcher((file_filter,), case_sensitive=True)
    folders = sorted(entry.name + b"/" for entry in _entries(top) if _kind(entry) == stat.S_IFDIR)
    names = [
        folder + name
        for folder in (b"", *folders)
        for name in sorted(
            entry.name
            for entry in _entries(top + b"/" + folder)
            if wanted(entry.name) and _kind(entry) in (stat.S_IFREG, None)
        )
    ]
    if not names:
        raise SourceError(
            f"no files found in {root!r}",
            given=f"{len(folders)} sub-folders, the filter {file_filter!r}",
            fix="give the folder with the files, or one above it, and a file_filter that matches",
        )
    return FileSource(root, names, [0] * len(names))


def from_names(list_path: str, root: str | None) -> FileSource:
    """The files that a text file lists, a path per line, each labelled with 0.

    Paths are relative to the list's folder or to `root`; they may contain spaces; blank lines do not count.

    Raises:
        SourceNotFoundError: the list, or the first file in it, does not exist.
        SourceError: there are no lines.
    """
    names = [name for line in _lines(list_path) if (name := line.strip())]
    if not names:
        raise SourceError(f"{list_path} lists no files")
    return _checked(FileSource(root if root is not None else str(Path(list_path).parent), names, [0] * len(names)))


def _lines(list_path: str) -> list[bytes]:
    path = Path(list_path)
    if not path.is_file():
        raise SourceNotFoundError(f"file_list is no file: {list_path!r}")
    try:
        return path.read_bytes().splitlines()
    except OSError as error:
        raise SourceError(f"file_list {list_path!r} cannot be read: {error.strerror}") from error


def from_list(list_path: str, root: str | None) -> FileSource:
    """The files that a text file lists, a line each: a path, a space, a label.

    Paths are relative to the list's folder or to `root`; they may contain spaces; blank lines do not count.

    Raises:
        SourceNotFoundError: the list, or the first file in it, does not exist.
        SourceError: a line has no label, or there are no lines.
    """
    names: list[bytes] = []
    labels: list[int] = []
    for number, line in enumerate(_lines(list_path), start=1):
        if not line.strip():
            continue
        name, _, label = line.rstrip().rpartition(b" ")
        if not name.strip() or not label.isdigit() or int(label) >= 2**31:
            raise SourceError(
                f"{list_path}:{number} is not a path, a space and a label",
                given=os.fsdecode(line),
                expected="cat/1.jpg 3, the label below 2**31",
            )
        names.append(name.strip())
        labels.append(int(label))
    if not names:
        raise SourceError(f"{list_path} lists no files")
    return _checked(FileSource(root if root is not None else str(Path(list_path).parent), names, labels))


def _checked(source: FileSource) -> FileSource:
    if not os.path.lexists(source.describe(0)):
        raise SourceNotFoundError(f"there is no file {source.describe(0)!r}", fix="paths are relative to file_root")
    return source
