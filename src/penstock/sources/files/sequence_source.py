"""Sequences of files: those of a folder, in the order of their names, cut into runs of one length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array, Column, Indices
from penstock.core.spec import Spec
from penstock.errors import SampleError, SourceError
from penstock.sources.files.class_folders import list_class_folders
from penstock.sources.files.file_source import FileSource
from penstock.sources.source import Source
from penstock.sources.storage.byte_range import ByteRange, ReadCost

_VISIBLE = ("[!.]*",)


class SequenceSource(Source):
    """The bytes of files that follow each other, and the length of each, for the sequences of each folder.

    Args:
        root: the folder above the folders of files; hidden ones do not count.
        patterns: a file counts if one of them matches its name, in upper or lower case.
        length: files of a sequence.
        step: files from the first one of a sequence to that of the next.
        stride: files from one of a sequence to the next.

    Raises:
        SourceNotFoundError: `root` is no folder.
        SourceError: no folder has enough files, or one cannot be read.
    """

    def __init__(self, root: str, patterns: tuple[str, ...], length: int, step: int, stride: int) -> None:
        self._files: FileSource = list_class_folders(root, patterns, _VISIBLE, False)
        counts: list[int] = np.bincount(self._files.labels).tolist()
        whole = (length - 1) * stride
        starts: list[NDArray[np.int64]] = []
        first = 0
        for count in counts:
            starts.append(first + np.arange(0, max(count - whole, 0), step, dtype=np.int64))
            first += count
        self._starts = np.concatenate(starts)
        if not len(self):
            raise SourceError(
                f"no folder in {root!r} has the {whole + 1} files of a sequence",
                given=f"{len(counts)} folders of up to {max(counts)} files",
                fix="a shorter sequence_length or stride",
            )
        self._offsets = stride * np.arange(length)
        self.specs = Spec(np.dtype(np.uint8), (None,)), Spec(np.dtype(np.int64), (length,))

    def __len__(self) -> int:
        return len(self._starts)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """The bytes of the files, one after the other, and how many each has."""
        data: list[Array] = []
        sizes = np.empty((len(indices), len(self._offsets)), np.int64) if out[1] is None else out[1]
        for row, index in enumerate(indices.tolist()):
            files = self._content(index)
            sizes[row] = list(map(len, files))
            data.append(np.concatenate(files))
        return data, sizes

    def _content(self, index: int) -> list[Array]:
        try:
            return self._files.contents(self._starts[index] + self._offsets)
        except SampleError as error:
            raise SampleError.of(index, self.describe(index), f"cannot be read: {error.args[0]}", error.path) from error

    @property
    def cost(self) -> ReadCost:
        """What reading costs."""
        return self._files.cost

    def byte_ranges(self, indices: Indices) -> list[ByteRange]:
        """What is fetched from object stores for some samples."""
        return self._files.byte_ranges((self._starts[indices][:, None] + self._offsets).ravel())

    def describe(self, index: int) -> str:
        """The paths of the first and the last file."""
        first, last = (self._files.describe(int(self._starts[index] + self._offsets[end])) for end in (0, -1))
        return first if first == last else f"{first} to {last}"

    def reads_same_samples(self, other: Source) -> bool:
        """Whether the same sequences of the same files are read."""
        return (
            isinstance(other, SequenceSource)
            and np.array_equal(self._starts, other._starts)  # noqa: SLF001  # one class
            and np.array_equal(self._offsets, other._offsets)  # noqa: SLF001  # likewise
            and self._files.reads_same_samples(other._files)  # noqa: SLF001  # likewise
        )

    def fingerprint(self) -> str:
        """The names of the files below the folder, and which of them a sequence has."""
        step = int(self._starts[1] - self._starts[0]) if len(self) > 1 else 0
        return f"sequence:{len(self)}:{self._offsets.tolist()}:{step}:{self._files.fingerprint()}"
