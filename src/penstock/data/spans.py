"""Parts of large files: records that lie one after the other, found by where they begin and how long they are."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.data.order import Indices
from penstock.data.source import Array
from penstock.errors import SampleError, SourceError, SourceNotFoundError

_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0)
_AHEAD = 1 << 16
"""Bytes read at once where records are small, to find the next ones."""


@dataclass(frozen=True)
class Block:
    """Records that were read at once: ``data[start:stop]`` each, in the order that was asked for."""

    data: Array
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]


class Spans:
    """Where each record of some files lies: 16 bytes of memory a record.

    A file is opened for a batch and closed after it, so any number of files will do. One that has been written to since
    the data set was opened is not read any more: its records may have moved.

    Args:
        paths: the files.
        find: lists the records of one file: where each begins, and its bytes. It is given the file's number, a
            descriptor and the size, and raises ValueError for a file that it cannot read.

    Raises:
        SourceNotFoundError: a file does not exist.
        SourceError: one is not what is expected, or no file has records.
    """

    def __init__(
        self, paths: Sequence[str], find: Callable[[int, int, int], tuple[NDArray[np.int64], NDArray[np.int64]]]
    ) -> None:
        self.paths = tuple(paths)
        self._stamps: list[Hashable] = []
        starts: list[NDArray[np.int64]] = []
        sizes: list[NDArray[np.int64]] = []
        for number, path in enumerate(self.paths):
            try:
                descriptor = os.open(path, _FLAGS)
            except FileNotFoundError:
                raise SourceNotFoundError(f"there is no file {path!r}") from None
            except OSError as error:
                raise SourceError(f"{path!r} cannot be read: {error.strerror}") from error
            try:
                self._stamps.append(_state(descriptor))
                begin, size = find(number, descriptor, os.fstat(descriptor).st_size)
            except (OSError, ValueError) as error:
                raise SourceError(f"{path!r} cannot be read: {error}") from error
            finally:
                os.close(descriptor)
            starts.append(begin)
            sizes.append(size)
        self.bounds = np.cumsum([0, *map(len, starts)])
        self.starts, self.sizes = np.concatenate(starts), np.concatenate(sizes)

    def __len__(self) -> int:
        return int(self.bounds[-1])

    def path(self, number: int) -> str:
        """The file that holds record `number`."""
        return self.paths[int(np.searchsorted(self.bounds, number, side="right")) - 1]

    def describe(self, number: int) -> str:
        """The file and the byte at which record `number` begins."""
        return f"{self.path(number)} at byte {self.starts[number]}"

    def read(self, numbers: Indices, samples: Indices | None = None) -> Block:
        """The bytes of records, file by file in the order of their places.

        Args:
            numbers: the records.
            samples: the sample that each belongs to, where that is not its own number.

        Raises:
            SampleError: a file became shorter, has been written to, or cannot be read.
        """
        sizes = self.sizes[numbers]
        stops = np.cumsum(sizes)
        starts = stops - sizes
        data = np.empty(int(sizes.sum()), np.uint8)
        view = data.data
        files = np.searchsorted(self.bounds, numbers, side="right") - 1
        current, descriptor = -1, -1
        try:
            for place in np.lexsort((self.starts[numbers], files)).tolist():
                number, file = int(numbers[place]), int(files[place])
                try:
                    if file != current:
                        if descriptor >= 0:
                            os.close(descriptor)
                        descriptor = -1
                        descriptor, current = os.open(self.paths[file], _FLAGS), file
                        if _state(descriptor) != self._stamps[file]:
                            raise ValueError("the file has been written to since the data set was opened")
                    _fill(descriptor, view[int(starts[place]) : int(stops[place])], int(self.starts[number]))
                except (OSError, ValueError) as error:
                    index = number if samples is None else int(samples[place])
                    reason = (error.strerror if isinstance(error, OSError) else None) or error
                    raise self.error(index, number, f"cannot be read: {reason}") from error
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        return Block(data, starts, stops)

    def error(self, index: int, number: int, what: str) -> SampleError:
        """The error for sample `index`, whose record `number` is not what it should be."""
        source = self.describe(number)
        return SampleError(f"sample {index} ({source}) {what}", index=index, source=source, path=self.path(number))

    def same_records(self, other: Spans) -> bool:
        """Whether the same records of the same files are read."""
        return self is other or (
            self.paths == other.paths
            and self._stamps == other._stamps
            and np.array_equal(self.starts, other.starts)
            and np.array_equal(self.sizes, other.sizes)
        )

    def digest(self) -> str:
        """A short text that tells these records from others, wherever the files lie: names, counts and sizes."""
        digest = hashlib.sha256("\0".join(os.path.basename(path) for path in self.paths).encode())  # noqa: PTH119  # text
        for part in (self.bounds, self.starts, self.sizes):
            digest.update(np.ascontiguousarray(part, "<i8").tobytes())
        return f"{len(self)}:{digest.hexdigest()[:16]}"


class Heads:
    """The heads of records that lie one after the other: read many at once where records are small.

    Args:
        descriptor: of the file.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._block, self._start, self._last = b"", 0, 0

    def at(self, at: int, count: int) -> bytes:
        """The `count` bytes that begin at byte `at`, or fewer at the end of the file."""
        if not self._start <= at <= self._start + len(self._block) - count:
            ahead = _AHEAD if at - self._last < _AHEAD // 8 else count
            self._block, self._start = os.pread(self._descriptor, ahead, at), at
        self._last = at
        return self._block[at - self._start : at - self._start + count]


def _state(descriptor: int) -> Hashable:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _fill(descriptor: int, view: memoryview, start: int) -> None:
    """Fill memory with what begins at a byte of a file.

    Raises:
        ValueError: the file ends before.
    """
    done = 0
    while done < len(view):
        count = os.preadv(descriptor, [view[done:]], start + done)
        if not count:
            raise ValueError(f"the file is cut short: {done} of {len(view)} bytes are left")
        done += count
