"""Tar files in WebDataset's convention: files whose names agree up to the first dot form a sample."""

import contextlib
import functools
import itertools
import re
import tarfile
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from penstock.core import Array, Column, Indices, Spec
from penstock.errors import PenstockError, SourceError, short_repr
from penstock.sources.formats.tar.tar_index import TAR_ERRORS, Members, headers_before, read_tar_index
from penstock.sources.source import Source, stack_dense
from penstock.sources.storage.byte_range import ByteRange
from penstock.sources.storage.random_access_file import Opened
from penstock.sources.storage.record_index_cache import Places
from penstock.sources.storage.record_ranges import RecordRanges

_BLOCK = 512
# Bytes per read of what follows the end of an archive.
_TAIL = 1 << 20

NUMBERS = frozenset(("cls", "cls2", "class", "count", "index", "inx", "id"))
"""Extensions that WebDataset reads as the text of a whole number."""
TEXTS = frozenset(("txt", "text", "transcript"))
WHOLE = re.compile(rb"\s*[+-]?[0-9]{1,40}\s*")
_PRINTABLE = re.compile(rb"[\s -~]+")


def kind_of(extension: str) -> str:
    """Return the last part of an extension, which determines the type of a file.

    >>> kind_of("seg.PNG")
    'png'
    """
    return extension.rpartition(".")[2].lower()


@dataclass(frozen=True)
class Components:
    """Components of a sample that are read.

    Args:
        wanted: Accepted extensions of each output.
        case_sensitive: True if extensions differ by case.
        missing: Treatment of samples without a component: "empty", "skip" or "error".
    """

    wanted: tuple[frozenset[str], ...]
    case_sensitive: bool
    missing: str

    def __str__(self) -> str:
        wanted = [sorted(item) for item in self.wanted]
        return f"tar {wanted}, case {self.case_sensitive}, missing {self.missing}"


class WebdatasetSource(Source):
    """Samples of tar files, in archive order, file by file.

    Args:
        paths: Uncompressed tar files.
        indexes: An index per file in the format of DALI's ``wds2idx``. If empty, the files' headers are read once.
        components: Components to read.
        dtypes: Type of each output. For an integer type other than uint8, a file with an extension for text is parsed
            as a whole number, unless it is binary; the bytes of all others are reinterpreted as the type.
        numbers: Outputs that are scalars parsed from text.

    Raises:
        SourceNotFoundError: A file does not exist.
        SourceError: A file is not a tar file, or is compressed, cut short or damaged; a sample has two files of one
            name or lacks a required component; an index belongs to another file; or no samples are left.
    """

    separate_names = True

    def __init__(
        self,
        paths: tuple[str, ...],
        indexes: tuple[str, ...],
        components: Components,
        dtypes: tuple[np.dtype[Any], ...],
        numbers: frozenset[int] = frozenset(),
    ) -> None:
        self._read_as = components, dtypes, numbers
        self._count = self.named_values = len(components.wanted)
        self._parts = RecordRanges(
            paths, functools.partial(_find, paths, indexes, components), "" if indexes else str(components)
        )
        self.cost = self._parts.cost
        if not len(self):
            wanted = ", ".join(map(_ends, components.wanted))
            raise SourceError(
                "the tar files have no samples", given=", ".join(paths[:4]), expected=f"files that end in {wanted}"
            )
        self.specs = tuple(Spec(dtype, () if n in numbers else (None,)) for n, dtype in enumerate(dtypes))
        self._texts = [
            dtype.kind in "iu" and dtype != np.uint8 and {*map(kind_of, wanted)} <= NUMBERS | TEXTS
            for wanted, dtype in zip(components.wanted, dtypes, strict=True)
        ]

    def __len__(self) -> int:
        return len(self._parts) // self._count

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Read the component of each output. A missing one gives an empty array."""
        numbers = self._numbers_of(indices)
        samples = np.repeat(indices, self._count)
        records = self._parts.read(numbers, samples)
        usual = [self._column(output, records[output :: self._count]) for output in range(self._count)]
        columns = [column for column in usual if column is not None]
        if len(columns) < self._count:
            columns = self._one_by_one_values(records, samples, numbers)
        return stack_dense(columns, self.specs, out)

    def _column(self, output: int, files: list[Array]) -> Column | None:
        """Return the values of an output if they are bytes or the text of whole numbers; otherwise None."""
        spec = self.specs[output]
        if not spec.dense:
            return files if spec.dtype == np.uint8 else None
        texts = [data.tobytes() for data in files]
        if spec.dtype.kind not in "iu" or not all(map(WHOLE.fullmatch, texts)):
            return None
        numbers, limits = list(map(int, texts)), np.iinfo(spec.dtype)
        return (
            np.array(numbers, spec.dtype)
            if limits.min <= min(numbers, default=0) and max(numbers, default=0) <= limits.max
            else None
        )

    def _one_by_one_values(self, records: Sequence[Array], samples: Indices, numbers: Indices) -> list[Column]:
        """Return the values of all outputs.

        Raises:
            SampleError: The bytes of a file do not match the type of its output.
        """
        columns: list[list[Array]] = [[] for _ in self.specs]
        for place, record in enumerate(records):
            output = place % self._count
            try:
                columns[output].append(self._value(output, record))
            except ValueError as error:
                raise self._parts.error(int(samples[place]), int(numbers[place]), str(error)) from None
        return list(columns)

    def _value(self, output: int, data: Array) -> Array:
        """Return the value of an output from the bytes of its file.

        Raises:
            ValueError: The bytes do not match the type of the output.
        """
        spec = self.specs[output]
        if spec.dense or self._texts[output]:
            text = data.tobytes()
            if WHOLE.fullmatch(text):
                return _number(int(text), spec, output)
            # Other text, such as "1.0" or "cat", is not a binary number even if its length fits.
            if spec.dense or _PRINTABLE.fullmatch(text):
                what = f"has {short_repr(text[:40])}" if text else "has nothing"
                skipped = "" if text else '; missing_component_behavior="skip" leaves such samples out'
                raise ValueError(f"{what} for output {output}, where the text of a whole number is expected{skipped}")
        if len(data) % spec.dtype.itemsize:
            raise ValueError(f"has {len(data)} bytes for output {output}, which are no {spec.dtype}")
        return data if spec.dtype == np.uint8 else data.copy().view(spec.dtype)

    def _numbers_of(self, indices: Indices) -> Indices:
        return (indices[:, None] * self._count + np.arange(self._count)).ravel()

    def byte_ranges(self, indices: Indices) -> list[ByteRange]:
        """Return the byte ranges of samples in object stores."""
        return self._parts.byte_ranges(self._numbers_of(indices))

    def describe(self, index: int) -> str:
        """Return the tar file, the offset of the first component that is not empty, and what the sample lacks."""
        first = index * self._count
        place = self._parts.describe(first + int(np.argmax(self._parts.sizes[first : first + self._count] > 0)))
        # Decoders only see an empty array: without this, their errors would speak of an empty file.
        wanted = self._read_as[0].wanted
        missing = [_ends(names) for value, names in enumerate(wanted) if self._is_missing(index, value)]
        return f"{place}, which has no file that ends in {' or in '.join(missing)}" if missing else place

    def source_info(self, index: int, value: int = 0) -> str:
        """Return the tar file, the offset of an output's data and the name in the archive, joined as in DALI."""
        number = index * self._count + value
        path, start = self._parts.path(number), int(self._parts.starts[number])
        return "" if self._is_missing(index, value) else f"{path}:{start}:{_name(path, start)}"

    def _is_missing(self, index: int, value: int) -> bool:
        """Return True if a sample has no file for an output. Reads a header if the component is empty."""
        number = index * self._count + value
        if self._parts.sizes[number]:
            return False
        # The place of a missing component is that of another one.
        name, components = _name(self._parts.path(number), int(self._parts.starts[number])), self._read_as[0]
        extension = name.rpartition("/")[2].partition(".")[2]
        return (extension if components.case_sensitive else extension.lower()) not in components.wanted[value]

    def identity(self) -> tuple[Any, ...]:
        """Return the records and the components."""
        return self._parts.identity(), self._read_as

    def fingerprint(self) -> str:
        """Return a text that identifies the files and the positions of their components."""
        return f"webdataset:{self._parts.fingerprint()}"


def _ends(extensions: frozenset[str]) -> str:
    """Return the extensions of an output, for messages."""
    return ";".join(sorted(extensions))


def _name(path: str, start: int) -> str:
    """Return the name in the tar header before `start`, or "" if it cannot be read."""
    with contextlib.suppress(OSError, PenstockError):
        return next((header.name for header in headers_before(path, start)), "")
    return ""


def _number(number: int, spec: Spec, output: int) -> Array:
    """Return a number as a scalar, or as a vector of one element, as DALI does.

    Raises:
        ValueError: The number is out of range for the type.
    """
    if spec.dtype.kind in "iu" and not np.iinfo(spec.dtype).min <= number <= np.iinfo(spec.dtype).max:
        raise ValueError(f"has {number} for output {output}, which is beyond {spec.dtype}")
    return np.array(number if spec.dense else [number], spec.dtype)


def _find(
    paths: tuple[str, ...], indexes: tuple[str, ...], components: Components, number: int, file: Opened, size: int
) -> Places:
    """Return the starts and sizes of the components of each sample, by output.

    Raises:
        ValueError: The file cannot be read, or a sample lacks a required component.
    """
    members = read_tar_index(indexes[number], paths[number], size, file.tag) if indexes else _walked(file, size)
    firsts = np.flatnonzero(np.diff(members.owners, prepend=-1))
    starts = np.repeat(members.starts[firsts, None], len(components.wanted), axis=1)
    sizes, present = np.zeros_like(starts), np.zeros(starts.shape, np.bool_)
    names = [item if components.case_sensitive else item.lower() for item in members.extensions]
    for output, wanted in enumerate(components.wanted):
        counts = np.array([name in wanted for name in names], np.bool_)
        at = np.flatnonzero(counts[members.kinds])[::-1]  # the first one counts
        owners = members.owners[at]
        starts[owners, output], sizes[owners, output] = members.starts[at], members.sizes[at]
        present[owners, output] = True
    if components.missing == "error" and not present.all():
        sample, output = np.argwhere(~present)[0]
        ends = _ends(components.wanted[int(output)])
        raise ValueError(f"the sample at byte {members.starts[firsts[int(sample)]]} has no file that ends in {ends}")
    if components.missing == "skip":
        starts, sizes = starts[present.all(axis=1)], sizes[present.all(axis=1)]
    return starts.ravel(), sizes.ravel()


def _walked(file: Opened, size: int) -> Members:
    """List the files of a tar file by reading its headers. Hidden files are ignored.

    Raises:
        ValueError: The file cannot be read, or a sample has two files of one name.
    """
    kinds: dict[str, int] = {}
    rows = array("q")
    visible = (member for member in _members(file, size) if _sample_name(member[0])[1])
    samples = itertools.groupby(visible, lambda member: _sample_name(member[0]))
    for number, (_, files) in enumerate(samples):
        seen: set[str] = set()
        for name, start, length in files:
            extension = name.rpartition("/")[2].partition(".")[2]
            if extension in seen:
                raise ValueError(f"the file {name!r} is there twice, the second time at byte {start}")
            seen.add(extension)
            rows.extend((kinds.setdefault(extension, len(kinds)), number, start, length))
    return Members(list(kinds), *np.array(rows, np.int64).reshape(-1, 4).T)


def _sample_name(name: str) -> tuple[str, str]:
    """Return the folder of a file, and its name up to the first dot: empty for a hidden file."""
    folder, _, file = name.rpartition("/")
    return folder, file.partition(".")[0]


def _members(file: Opened, size: int) -> Iterator[tuple[str, int, int]]:
    """Yield name, data offset and size of each file in a tar file. A hard link has those of the file that it repeats.

    Raises:
        ValueError: As `_headers`; or a hard link is to another file than those before it.
    """
    # Few archives have hard links, so places are kept by name from the first link on.
    places: dict[str, tuple[int, int]] | None = None
    for count, (name, start, length, target) in enumerate(_headers(file, size)):
        place = start, length
        if target is not None:
            if places is None:
                places = {name: (at, length) for name, at, length in itertools.islice(_members(file, size), count)}
            if target not in places:
                raise ValueError(f"{name!r} at byte {start} is a link to {target!r}, which is not before it")
            place = places[target]
        if places is not None:
            places[name] = place
        yield name, *place


def _headers(file: Opened, size: int) -> Iterator[tuple[str, int, int, str | None]]:
    """Yield name, data offset, size and, for a hard link, the name that it repeats, of each file in a tar file.

    Raises:
        ValueError: The file is not a tar file, or is compressed, cut short or damaged; or data follows its end.
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
                    if not 0 <= member.size <= size - at:
                        raise ValueError(f"{member.name!r} at byte {at} goes beyond its end at {size}")
                    yield member.name, at, member.size, None
                elif member.islnk():
                    yield member.name, at, 0, member.linkname
            at = archive.offset
    except TAR_ERRORS as error:
        raise ValueError(f"it is no tar file, or is damaged after byte {at}: {error}") from error
    # `tarfile` also stops, without an error, where a header is damaged; a complete archive ends in a block of zeros.
    if at > size - _BLOCK or any(file.pread(_BLOCK, at)):
        raise ValueError(f"it is cut short or damaged at byte {at}: neither a file nor the end of a tar file is there")
    # Programs fill up the last record with zeros, usually to 10 KiB.
    if any(file.pread(_TAIL, start).strip(b"\0") for start in range(at, size, _TAIL)):
        raise ValueError(
            f"data follows the end of the tar file at byte {at}: read joined archives as separate files, "
            'or join them by "tar --concatenate"'
        )
