"""Files with labels, as a data set. `folders` and `file_lists` find them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array, Column, Indices
from penstock.core.spec import Spec
from penstock.errors import ResourceError, SampleError, SourceNotFoundError, error_text
from penstock.sources.source import Source
from penstock.sources.storage.byte_range import ByteRange, ReadCost
from penstock.sources.storage.local_bytes import read_file
from penstock.sources.storage.object_store import head, is_remote, open_error
from penstock.sources.storage.prefetch import ahead


class FileSource(Source):
    """The bytes of files, and an int32 label for each.

    Args:
        root: the folder to which the names are relative; "" where they are complete.
        names: the files, as bytes, in the order of the data set.
        labels: one per file.
        tags: the ETags of files that are objects of a store, where they are known.
    """

    specs = (Spec(np.dtype(np.uint8), (None,)), Spec(np.dtype(np.int32), (1,)))

    def __init__(
        self,
        root: str,
        names: Sequence[bytes],
        labels: Sequence[int] | NDArray[np.int32],
        tags: Sequence[str] | None = None,
    ) -> None:
        self._root = os.fsencode(root)
        self._tags = None if tags is None else np.array(tags, dtype=np.str_)
        self._remote = is_remote(root) or any(map(is_remote, names))
        self._names = np.array(names, dtype=np.bytes_)  # 25 bytes a file, where a list of str needs 100
        self._labels = np.asarray(labels, np.int32).reshape(-1, 1)

    def __len__(self) -> int:
        return len(self._names)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """The bytes of the files, and their labels."""
        return self.contents(indices), np.take(self._labels, indices, axis=0, out=out[1], mode="clip")

    def contents(self, indices: Indices) -> list[Array]:
        """The bytes of some files.

        Raises:
            SampleError: one cannot be read.
            ResourceError: one has more bytes than are read for one sample.
        """
        return [self.checked(*each) for each in zip(indices.tolist(), self.attempts(indices), strict=True)]

    def attempts(self, indices: Indices) -> Iterable[Array | OSError]:
        """The bytes of each file, or what went wrong with it."""
        if not self._remote and not ahead.is_active:
            return map(self._local, indices.tolist())
        return ahead.read(self.byte_ranges(indices))

    @property
    def cost(self) -> ReadCost:
        """What reading costs."""
        return ReadCost.STORE if self._remote else ReadCost.FILE

    def byte_ranges(self, indices: Indices) -> list[ByteRange]:
        """The files that are read for some samples."""
        return [ByteRange(path, 0, None, tag, limited=True) for path, tag in self._tagged(indices)]

    def ranges(self, indices: Indices, starts: Sequence[int], stops: Sequence[int]) -> list[Array | OSError]:
        """Bytes of some files, of each from its start to its stop; or what went wrong with it.

        Where a file ends before, there are fewer, or something went wrong.
        """
        files = zip(self._tagged(indices), starts, stops, strict=True)
        return list(ahead.read([ByteRange(path, start, stop, tag) for (path, tag), start, stop in files]))

    def is_shorter(self, index: int, size: int) -> bool:
        """Whether a file has fewer bytes; of an object that is not known."""
        path = self._path(index)
        try:
            return not is_remote(path) and os.stat(path).st_size < size  # noqa: PTH116  # bytes
        except (OSError, ValueError):
            return True

    def range_needs(self, indices: Indices, start: int, stop: int) -> list[ByteRange]:
        """What `ranges` reads for one range of each file."""
        return [ByteRange(path, start, stop, tag) for path, tag in self._tagged(indices)]

    def _tagged(self, indices: Indices) -> Iterable[tuple[str, str]]:
        """The paths of some files, and their tags."""
        names: list[bytes] = self._names[indices].tolist()
        tags: Iterable[str] = repeat("") if self._tags is None else self._tags[indices].tolist()
        return zip([os.fsdecode(self._joined(name)) for name in names], tags)  # noqa: B905  # one may be endless

    @property
    def labels(self) -> list[int]:
        """The label of each file."""
        return self._labels.ravel().tolist()

    def content(self, index: int) -> Array:
        """The bytes of file `index`.

        Raises:
            SampleError: it cannot be read.
        """
        return self.contents(np.array([index]))[0]

    def _local(self, index: int) -> Array | OSError:
        try:
            return read_file(self._path(index), limited=True)
        except OSError as error:
            return error

    def checked(self, index: int, data: Array | OSError) -> Array:
        """The bytes that were read for file `index`, unless they are an error.

        Raises:
            SampleError: it cannot be read.
            ResourceError: it has more bytes than are read for one sample.
        """
        if not isinstance(data, OSError):
            return data
        if isinstance(data, ResourceError):
            raise data
        name = self.describe(index)
        raise SampleError.of(index, name, f"cannot be read: {error_text(data)}", name) from data

    def _path(self, index: int) -> bytes:
        return self._joined(bytes(self._names[index]))

    def _joined(self, name: bytes) -> bytes:
        if self._remote and is_remote(name):
            return name
        return os.path.join(self._root, name)  # noqa: PTH118  # bytes: names need not be valid text

    def describe(self, index: int) -> str:
        """The file's path."""
        return os.fsdecode(self._path(index))

    path = describe

    def check_first(self, fix: str) -> None:
        """Check that the first file exists.

        Args:
            fix: what to do where it does not.

        Raises:
            SourceNotFoundError: it does not.
            SourceError: it is an object of a store that does not answer.
        """
        first = self.describe(0)
        if is_remote(first):
            try:
                head(first)
            except OSError as error:
                raise open_error(first, error) from error
        elif not os.path.lexists(first):
            raise SourceNotFoundError(f"there is no file {first!r}", fix=fix)

    def source_info(self, index: int, value: int = 0) -> str:
        """The file's path as the data set has it: relative to its root."""
        del value
        return os.fsdecode(self._names[index])

    def reads_same_samples(self, other: Source) -> bool:
        """Whether the same files have the same labels."""
        if not isinstance(other, FileSource) or self._root != other._root:  # noqa: SLF001  # one class
            return False
        pairs = ((self._names, other._names), (self._labels, other._labels))  # noqa: SLF001  # one class
        return all(mine is theirs or np.array_equal(mine, theirs) for mine, theirs in pairs)

    def fingerprint(self) -> str:
        """The names below their common folder, and the labels."""
        names: list[bytes] = self._names.tolist()
        if self._remote:  # buckets are where data sets are mounted
            names = [b"/" + name.partition(b"://")[2] if is_remote(name) else name for name in names]
        absolute = all(map(os.path.isabs, names))  # they begin with where the data set is mounted
        folder = os.path.commonpath([os.path.dirname(name) for name in names]) if absolute else b""  # noqa: PTH120  # bytes
        digest = hashlib.sha256(b"\0".join(name[len(folder) :] for name in names) + self._labels.tobytes())
        return f"files:{len(self)}:{digest.hexdigest()[:16]}"
