"""Source of files with labels. `class_folders` and `file_lists` create it."""

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array, Column, Indices, Spec, short_digest
from penstock.errors import ResourceError, SourceNotFoundError, error_text
from penstock.sources.source import Source
from penstock.sources.storage import file_loop
from penstock.sources.storage.byte_range import ByteRange, ReadCost
from penstock.sources.storage.byte_range_cache import ahead
from penstock.sources.storage.file_batches import FileBatchReader
from penstock.sources.storage.local_bytes import read_file
from penstock.sources.storage.object_store import head, is_remote, opening


class FileSource(Source):
    """Source of the bytes of files, with an int32 label for each file.

    Args:
        root: Folder that names are relative to, or "" if they are complete.
        names: Names of the files as bytes, in order.
        labels: One label per file.
        tags: ETags of remote files, if known.
        classes: Name of each label; none if labels have no names.
    """

    specs = (Spec(np.dtype(np.uint8), (None,)), Spec(np.dtype(np.int32), (1,)))

    def __init__(
        self,
        root: str,
        names: Sequence[bytes],
        labels: Sequence[int] | NDArray[np.int32],
        tags: Sequence[str] | None = None,
        classes: Sequence[str] = (),
    ) -> None:
        self._root = os.fsencode(root.rstrip("/") if is_remote(root) else root)  # "t//" would be part of a key
        self._classes = tuple(classes)
        self._tags = None if tags is None else np.array(tags, dtype=np.str_)
        self._remote = is_remote(root) or any(map(is_remote, names))
        self._names = np.array(names, dtype=np.bytes_)  # 25 bytes a file, where a list of str needs 100
        self._labels = np.asarray(labels, np.int32).reshape(-1, 1)
        self.cost = ReadCost.STORE if self._remote else ReadCost.FILE
        self._batches = FileBatchReader(self._root) if file_loop.is_supported() else None

    def __len__(self) -> int:
        return len(self._names)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Read the bytes and labels of files."""
        return self.contents(indices), np.take(self._labels, indices, axis=0, out=out[1], mode="clip")

    def contents(self, indices: Indices) -> list[Array]:
        """Read the bytes of files.

        Raises:
            SampleError: A file cannot be read.
            ResourceError: A file exceeds the size limit of a sample.
        """
        return [self.checked(*pair) for pair in zip(indices.tolist(), self.attempts(indices), strict=True)]

    def attempts(self, indices: Indices) -> Iterable[Array | OSError]:
        """Read the bytes of each file, or return its error."""
        if self._remote or ahead.is_active:
            return ahead.read(self.byte_ranges(indices))
        if self._batches is None or not self._batches.pays_off(len(indices)):
            return map(self._local, indices.tolist())
        # What cannot be read together with others is read alone, which also gives its error.
        together = zip(indices.tolist(), self._batches.read(self._names[indices]), strict=True)
        return (self._local(index) if data is None else data for index, data in together)

    def byte_ranges(self, indices: Indices) -> list[ByteRange]:
        """Return the byte ranges of whole files."""
        return [ByteRange(path, 0, None, tag, limited=True) for path, tag in self._tagged(indices)]

    def ranges(self, indices: Indices, starts: Sequence[int], stops: Sequence[int]) -> list[Array | OSError]:
        """Read one byte range per file, or return its error.

        A range beyond the end of its file gives fewer bytes, or an error.
        """
        return ahead.read(self.range_needs(indices, starts, stops))

    def is_shorter(self, index: int, size: int) -> bool:
        """Return True if a local file has fewer bytes than `size`. Remote files always give False."""
        path = self._path(index)
        try:
            return not is_remote(path) and os.stat(path).st_size < size  # noqa: PTH116  # bytes
        except (OSError, ValueError):
            return True

    def range_needs(self, indices: Indices, starts: Sequence[int], stops: Sequence[int]) -> list[ByteRange]:
        """Return the byte ranges that `ranges` reads."""
        files = zip(self._tagged(indices), starts, stops, strict=True)
        return [ByteRange(path, start, stop, tag) for (path, tag), start, stop in files]

    def _tagged(self, indices: Indices) -> Iterable[tuple[str, str]]:
        """Return paths and tags of files."""
        names: list[bytes] = self._names[indices].tolist()
        tags: Iterable[str] = repeat("") if self._tags is None else self._tags[indices].tolist()
        return zip([os.fsdecode(self._joined(name)) for name in names], tags)  # noqa: B905  # one may be endless

    @property
    def labels(self) -> list[int]:
        """Labels of all files."""
        return self._labels.ravel().tolist()

    def content(self, index: int) -> Array:
        """Read the bytes of one file.

        Raises:
            SampleError: The file cannot be read.
        """
        return self.contents(np.array([index]))[0]

    def _local(self, index: int) -> Array | OSError:
        try:
            return read_file(self._path(index), limited=True)
        except OSError as error:
            return error

    def checked(self, index: int, data: Array | OSError) -> Array:
        """Return the bytes of a file, or raise its error.

        Raises:
            SampleError: The file cannot be read.
            ResourceError: The file exceeds the size limit of a sample.
        """
        if not isinstance(data, OSError):
            return data
        if isinstance(data, ResourceError):
            raise data
        raise self.sample_error(index, f"cannot be read: {error_text(data)}") from data

    def _path(self, index: int) -> bytes:
        return self._joined(bytes(self._names[index]))

    def _joined(self, name: bytes) -> bytes:
        if self._remote and is_remote(name):
            return name
        return os.path.join(self._root, name)  # noqa: PTH118  # bytes: names need not be valid text

    def describe(self, index: int) -> str:
        """Return the path of the file."""
        return os.fsdecode(self._path(index))

    path = describe

    def class_names(self, value: int) -> Mapping[int, str]:
        """Return the names of the labels."""
        return dict(enumerate(self._classes)) if value == 1 else {}

    def summary(self) -> str:
        """Describe the files in a few words: their number and that of the classes."""
        if not self._classes:
            return super().summary()
        used = len(np.unique(self._labels))
        classes = f"{len(self._classes)} class{'es' * (len(self._classes) != 1)}"
        empty = f", {len(self._classes) - used} of them empty" if used < len(self._classes) else ""
        return f"{super().summary()} in {classes}{empty}"

    def check_first(self, fix: str) -> None:
        """Check that the first file exists.

        Args:
            fix: Advice for the message.

        Raises:
            SourceNotFoundError: It does not exist.
            SourceError: The object store does not answer.
        """
        first = self.describe(0)
        if is_remote(first):
            with opening(first):
                head(first)
        # A broken link counts as present: it is reported as a bad sample when it is read.
        elif not os.path.lexists(first):
            raise SourceNotFoundError(f"there is no file {first!r}", fix=fix)

    def source_info(self, index: int, value: int = 0) -> str:
        """Return the name of the file, relative to the root."""
        return os.fsdecode(self._names[index])

    def identity(self) -> tuple[Any, ...]:
        """Return the files and their labels."""
        return self._root, self._names, self._labels

    def fingerprint(self) -> str:
        """Return a text that identifies the files and labels, wherever the data set is mounted."""
        return self._fingerprint

    @functools.cached_property
    def _fingerprint(self) -> str:
        # Cached: states, processes of a job and caches each ask for it, and a data set may have millions of names.
        names: list[bytes] = self._names.tolist()
        # A copy in another bucket or under another mount point is the same data set: saved states stay valid.
        if self._remote:
            names = [b"/" + name.partition(b"://")[2] if is_remote(name) else name for name in names]
        absolute = all(map(os.path.isabs, names))
        folder = os.path.commonpath([os.path.dirname(name) for name in names]) if absolute else b""  # noqa: PTH120  # bytes
        digest = short_digest(b"\0".join(name[len(folder) :] for name in names), self._labels)
        return f"files:{len(self)}:{digest}"
