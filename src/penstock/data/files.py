"""Files with labels: a folder per class, a list of paths, or a text file that lists them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.data.order import Indices
from penstock.data.source import Array, Column, Source, stamp_of
from penstock.data.spec import Spec
from penstock.errors import SampleError, SourceError, SourceNotFoundError


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
        return [self._read(index) for index in indices.tolist()], np.take(
            self._labels, indices, axis=0, out=out[1], mode="clip"
        )

    def _read(self, index: int) -> Array:
        try:
            with open(self._path(index), "rb", buffering=0) as file:  # noqa: PTH123  # a Path costs as much as the read
                return np.frombuffer(file.readall() or bytearray(), np.uint8)
        except OSError as error:
            raise SampleError(f"sample {index} cannot be read: {error}") from error

    def _path(self, index: int) -> bytes:
        return os.path.join(self._root, self._names[index])  # noqa: PTH118  # bytes: names need not be valid text

    def describe(self, index: int) -> str:
        """The file's path."""
        return os.fsdecode(self._path(index))

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

    Folders and files are sorted by the bytes of their names. Every folder has a number, an empty one too.

    Raises:
        SourceNotFoundError: `root` is no folder.
        SourceError: no file in it matches.
    """
    if not Path(root).is_dir():
        raise SourceNotFoundError(f"file_root is no folder: {root!r}")
    folders = _matching(os.scandir(os.fsencode(root)), dir_filters, case_sensitive=True, folders=True)
    names: list[bytes] = []
    labels: list[int] = []
    for label, folder in enumerate(folders):
        inside = os.scandir(os.path.join(os.fsencode(root), folder))  # noqa: PTH118  # bytes
        files = _matching(inside, file_filters, case_sensitive=case_sensitive, folders=False)
        names += [folder + b"/" + name for name in files]
        labels += [label] * len(files)
    if not names:
        raise SourceError(
            f"no files found in {root!r}",
            given=f"{len(folders)} sub-folders, filters {', '.join(file_filters)}",
            expected="one sub-folder per class, with files that match",
            fix="give the folder above the class folders, or file_filters that match",
        )
    return FileSource(root, names, labels)


def stamp_of_root(root: str) -> Hashable:
    """What changes when `from_root` would find other files: the stamps of the folder and of the folders in it."""
    try:
        folders = [entry.path for entry in os.scandir(os.fsencode(root)) if entry.is_dir()]
    except OSError:
        return None
    return stamp_of(root, *sorted(folders))


def _matching(
    entries: Iterable[os.DirEntry[bytes]], patterns: tuple[str, ...], *, case_sensitive: bool, folders: bool
) -> list[bytes]:
    def matches(name: bytes) -> bool:
        text = os.fsdecode(name) if case_sensitive else os.fsdecode(name).lower()
        return any(fnmatchcase(text, pattern if case_sensitive else pattern.lower()) for pattern in patterns)

    return sorted(
        entry.name for entry in entries if entry.is_dir() == folders and (not patterns or matches(entry.name))
    )


def from_files(root: str, files: tuple[str, ...], labels: tuple[int, ...] | None) -> FileSource:
    """The files named, each labelled as given, or with its number.

    Raises:
        SourceError: there are none, or the labels are not as many.
        SourceNotFoundError: the first file is not there.
    """
    if not files:
        raise SourceError("files is empty", expected="at least one path")
    if labels is not None and len(labels) != len(files):
        raise SourceError(f"{len(labels)} labels for {len(files)} files", fix="give one label per file")
    return _checked(FileSource(root, [os.fsencode(file) for file in files], labels or range(len(files))))


def from_list(list_path: str, root: str | None) -> FileSource:
    """The files that a text file lists, a line each: a path, a space, a label.

    Paths are relative to the list's folder or to `root`; they may contain spaces; blank lines do not count.

    Raises:
        SourceNotFoundError: the list, or the first file in it, is not there.
        SourceError: a line has no label, or there are no lines.
    """
    path = Path(list_path)
    if not path.is_file():
        raise SourceNotFoundError(f"file_list is no file: {list_path!r}")
    names: list[bytes] = []
    labels: list[int] = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        name, _, label = line.rstrip().rpartition(b" ")
        if not name.strip() or not label.isdigit():
            raise SourceError(
                f"{list_path}:{number} is not a path, a space and a label",
                given=os.fsdecode(line),
                expected="cat/1.jpg 3",
            )
        if int(label) >= 2**31:
            raise SourceError(f"{list_path}:{number}: labels are int32", given=int(label), expected="less than 2**31")
        names.append(name.strip())
        labels.append(int(label))
    if not names:
        raise SourceError(f"{list_path} lists no files")
    return _checked(FileSource(root if root is not None else str(path.parent), names, labels))


def _checked(source: FileSource) -> FileSource:
    if not Path(source.describe(0)).is_file():
        raise SourceNotFoundError(f"there is no file {source.describe(0)!r}", fix="paths are relative to file_root")
    return source
