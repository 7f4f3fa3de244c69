"""Sequences of consecutive files in a folder."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core import Array, Column, Indices, Spec
from penstock.errors import SampleError, SourceError
from penstock.sources.files.class_folders import list_class_folders
from penstock.sources.files.file_source import FileSource
from penstock.sources.source import Source
from penstock.sources.storage.byte_range import ByteRange

_VISIBLE = ("[!.]*",)


class SequenceSource(Source):
    """Source of file sequences: the concatenated bytes of the files, and the length of each file.

    Args:
        root: Folder that contains the folders of files. Hidden folders are skipped.
        patterns: Globs for file names, not case-sensitive.
        length: Number of files of a sequence.
        step: Distance, in files, between the starts of two sequences.
        stride: Distance, in files, between two files of a sequence.

    Raises:
        SourceNotFoundError: `root` is not a folder.
        SourceError: No folder has enough files, or one cannot be read.
    """

    def __init__(self, root: str, patterns: tuple[str, ...], length: int, step: int, stride: int) -> None:
        self._files: FileSource = list_class_folders(
            root, patterns, _VISIBLE, case_sensitive=False, warn_of_empty=False
        )
        self.cost = self._files.cost
        counts: list[int] = np.bincount(self._files.labels).tolist()
        whole = (length - 1) * stride
        starts: list[Indices] = []
        # A sequence never crosses folders, so each folder is cut separately.
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
        """Read sequences: the concatenated bytes of the files, and the length of each file."""
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

    def byte_ranges(self, indices: Indices) -> list[ByteRange]:
        """Return the byte ranges of the files of these samples."""
        return self._files.byte_ranges((self._starts[indices][:, None] + self._offsets).ravel())

    def describe(self, index: int) -> str:
        """Return the paths of the first and the last file."""
        first, last = (self._files.describe(int(self._starts[index] + self._offsets[end])) for end in (0, -1))
        return first if first == last else f"{first} to {last}"

    def identity(self) -> tuple[Any, ...]:
        """Return the files, and the files of each sequence."""
        return self._starts, self._offsets, self._files

    def fingerprint(self) -> str:
        """Return a text that identifies the files and how they are cut into sequences."""
        step = int(self._starts[1] - self._starts[0]) if len(self) > 1 else 0
        return f"sequence:{len(self)}:{self._offsets.tolist()}:{step}:{self._files.fingerprint()}"
