"""Tar files in the manner of WebDataset: files that share a name up to its first dot are one sample."""

from __future__ import annotations

import functools
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from penstock.data.order import Indices
from penstock.data.source import Array, Column, Cost, Source
from penstock.data.spans import Spans
from penstock.data.spec import Spec
from penstock.data.stores.cache import read_bytes
from penstock.data.stores.extent import Extent
from penstock.data.stores.opened import Opened
from penstock.errors import SourceError, SourceNotFoundError

_BLOCK = 512
Component = tuple[str, int, int]
"""An extension, the byte at which the file's data begin, and their number."""


@dataclass(frozen=True)
class Components:
    """What is read of a sample.

    Args:
        wanted: per output the extensions of which one is read.
        case_sensitive: whether upper and lower case of extensions differ.
        missing: "empty", "skip" or "error": what becomes of a sample that lacks one.
    """

    wanted: tuple[frozenset[str], ...]
    case_sensitive: bool
    missing: str

    def __str__(self) -> str:
        wanted = [sorted(each) for each in self.wanted]
        return f"tar {wanted}, case {self.case_sensitive}, missing {self.missing}"


class WebdatasetSource(Source):
    """The samples of tar files, in the order in which they lie there, file after file.

    Args:
        paths: the tar files, not compressed.
        indexes: an index per file, as DALI's ``wds2idx`` writes it. Without them the files' headers are read once.
        components: what is read.
        dtypes: per output, as what its bytes are read.

    Raises:
        SourceNotFoundError: a file does not exist.
        SourceError: a file is no tar file, is compressed, cut short or damaged, a sample has two files of one name, or
            lacks what it must have; no samples are left.
    """

    def __init__(
        self,
        paths: tuple[str, ...],
        indexes: tuple[str, ...],
        components: Components,
        dtypes: tuple[np.dtype[Any], ...],
    ) -> None:
        self._read_as = components, dtypes
        self._count = len(components.wanted)
        self._parts = Spans(paths, functools.partial(_find, indexes, components), "" if indexes else str(components))
        if not len(self):
            wanted = ", ".join(";".join(sorted(each)) for each in components.wanted)
            raise SourceError(
                "the tar files have no samples", given=", ".join(paths[:4]), expected=f"files that end in {wanted}"
            )
        self.specs = tuple(Spec(dtype, (None,)) for dtype in dtypes)

    def __len__(self) -> int:
        return len(self._parts) // self._count

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """What each sample has for each output; nothing where it is missing."""
        numbers = self._numbers_of(indices)
        samples = np.repeat(indices, self._count)
        block = self._parts.read(numbers, samples)
        columns: tuple[list[Array], ...] = tuple([] for _ in self.specs)
        for place, (start, stop) in enumerate(zip(block.starts.tolist(), block.stops.tolist(), strict=True)):
            column = place % self._count
            dtype, data = self.specs[column].dtype, block.data[start:stop]
            if len(data) % dtype.itemsize:
                what = f"has {len(data)} bytes for output {column}, which are no {dtype}"
                raise self._parts.error(int(samples[place]), int(numbers[place]), what)
            columns[column].append(data if dtype.itemsize == 1 and dtype == np.uint8 else data.copy().view(dtype))
        return columns

    def _numbers_of(self, indices: Indices) -> Indices:
        return (indices[:, None] * self._count + np.arange(self._count)).ravel()

    @property
    def cost(self) -> Cost:
        """What reading costs."""
        return self._parts.cost

    def needs(self, indices: Indices) -> list[Extent]:
        """What is fetched from object stores for some samples."""
        return self._parts.needs(self._numbers_of(indices))

    def describe(self, index: int) -> str:
        """The file, and the byte at which what the sample has begins."""
        first = index * self._count
        return self._parts.describe(first + int(np.argmax(self._parts.sizes[first : first + self._count] > 0)))

    def same_data(self, other: Source) -> bool:
        """Whether the same components of the same samples are read."""
        return (
            isinstance(other, WebdatasetSource)
            and self._read_as == other._read_as  # noqa: SLF001  # one class
            and self._parts.same_records(other._parts)  # noqa: SLF001  # one class
        )

    def fingerprint(self) -> str:
        """The names of the files, and the places of what is read."""
        return f"webdataset:{self._parts.digest()}"


Places = tuple[NDArray[np.int64], NDArray[np.int64]]


def _find(indexes: tuple[str, ...], components: Components, number: int, file: Opened, size: int) -> Places:
    """Where what is read of each sample lies, output by output.

    Raises:
        ValueError: the file cannot be read, or a sample lacks what it must have.
    """
    samples = _indexed(indexes[number]) if indexes else _samples(_members(file, size))
    starts: list[int] = []
    sizes: list[int] = []
    for sample in samples:
        found = [_first(sample, wanted, components.case_sensitive) for wanted in components.wanted]
        if None in found and components.missing != "empty":
            if components.missing == "skip":
                continue
            wanted = ";".join(sorted(components.wanted[found.index(None)]))
            raise ValueError(f"the sample at byte {sample[0][1]} has no file that ends in {wanted}")
        for each in found:
            _, start, length = each or ("", sample[0][1], 0)
            if length < 0 or start < 0 or start + length > size:
                raise ValueError(f"a file of {length} bytes at byte {start} goes beyond its end at {size}")
            starts.append(start)
            sizes.append(length)
    return np.array(starts, np.int64), np.array(sizes, np.int64)


def _first(sample: list[Component], wanted: frozenset[str], case_sensitive: bool) -> Component | None:
    return next((each for each in sample if (each[0] if case_sensitive else each[0].lower()) in wanted), None)


def _samples(members: Iterator[tuple[str, int, int]]) -> Iterator[list[Component]]:
    """Files that follow each other and share their names up to the first dot. Hidden files do not count.

    Raises:
        ValueError: a sample has two files of one name.
    """
    current, sample = None, list[Component]()
    for name, start, size in members:
        folder, _, file = name.rpartition("/")
        base, _, extension = file.partition(".")
        if not base:
            continue
        if (folder, base) != current and sample:
            yield sample
            sample = []
        current = folder, base
        if any(extension == other for other, _, _ in sample):
            raise ValueError(f"the file {name!r} is there twice, the second time at byte {start}")
        sample.append((extension, start, size))
    if sample:
        yield sample


def _members(file: Opened, size: int) -> Iterator[tuple[str, int, int]]:
    """The files in a tar file: name, the byte at which the data begin, their number.

    Raises:
        ValueError: it is no tar file, is compressed, or is cut short or damaged.
    """
    if file.pread(2, 0) == b"\x1f\x8b":
        raise ValueError("it is compressed with gzip, and only plain tar files have random access")
    at = 0
    try:
        with file.raw() as raw, tarfile.open(fileobj=raw, mode="r:") as archive:
            while (member := archive.next()) is not None:
                if member.offset_data <= at:
                    raise ValueError(f"its headers lead in circles at byte {at}")
                at = member.offset_data
                cast(Any, archive).members = []  # it would keep them all
                if member.issparse():
                    raise ValueError(f"{member.name!r} is a sparse file")
                if member.isreg():
                    yield member.name, member.offset_data, member.size
            at = archive.offset
    except (tarfile.TarError, OverflowError, RecursionError, IndexError, KeyError, EOFError) as error:
        raise ValueError(f"it is no tar file, or is damaged after byte {at}: {error}") from error
    if at > size - _BLOCK or any(file.pread(_BLOCK, at)):
        raise ValueError(f"it is cut short or damaged at byte {at}: neither a file nor the end of a tar file is there")


def _indexed(index: str) -> Iterator[list[Component]]:
    """The samples that an index lists: a line each, after a line with a version and their number.

    Raises:
        SourceNotFoundError: there is no index.
        SourceError: it is none.
    """
    try:
        lines = read_bytes(index).decode("utf-8", "surrogateescape").splitlines()
    except FileNotFoundError:
        raise SourceNotFoundError(f"there is no index {index!r}", fix="without index_paths it is made") from None
    except OSError as error:
        raise SourceError(f"the index {index!r} cannot be read: {error.strerror}") from error
    fault = SourceError(
        f"{index!r} is no index of a tar file",
        expected="v1.2 and the number of samples, then a line per sample: extension, byte, size, name, for each file",
        fix="without index_paths it is made",
    )
    head = lines[0].split() if lines else []
    if len(head) != 2 or head[0] not in ("v1.1", "v1.2") or head[1] != str(len(lines) - 1):
        raise fault
    width = 4 if head[0] == "v1.2" else 3
    for line in lines[1:]:
        words = line.split()
        try:
            sample = [(words[n], int(words[n + 1]), int(words[n + 2])) for n in range(0, len(words), width)]
        except (ValueError, IndexError):
            raise fault from None
        if not sample or len(words) % width:
            raise fault
        yield sample
