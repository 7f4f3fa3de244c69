"""Records in large files, by offset and size."""

import contextlib
import itertools
import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from penstock.core import Array, Indices, short_digest
from penstock.errors import PenstockError, SampleError, SourceError, error_text
from penstock.sources.order.part_offsets import PartOffsets
from penstock.sources.storage.byte_range import ByteRange, ObjectInfo, ReadCost
from penstock.sources.storage.file_folders import folders_suffix
from penstock.sources.storage.object_store import is_remote, opening
from penstock.sources.storage.random_access_file import LocalFile, Opened, open_file
from penstock.sources.storage.range_coalescing import RangeReader
from penstock.sources.storage.record_index_cache import Places, cached_record_index
from penstock.sources.storage.sample_limit import check_sample_size, max_sample_size
from penstock.sources.storage.store_requests import map_or_raise

# Bytes per read of a walk over small records: one system call then finds many headers.
_AHEAD = 1 << 16


@dataclass(frozen=True)
class _RecordBlock:
    """Records of one read, ``data[start:stop]`` each, in the order of the request.

    Args:
        numbers: Numbers of the records.
        samples: Sample index per record for errors.
        data: Memory for all records.
        starts: Offset of each record in `data`.
        stops: End of each record in `data`.
    """

    numbers: Indices
    samples: Indices
    data: Array
    starts: Indices
    stops: Indices


class RecordRanges:
    """Index of the records in some files, with 16 bytes of memory per record.

    A file is opened per batch, so that the number of files is not limited by the number of open files. A file that was
    written since the data set was opened is refused, since its records may have moved.

    Args:
        paths: The files.
        find: Returns offsets and sizes of the records of a file, from the file's number, the open file and its size.
            Raises ValueError for a file that it cannot read.
        what: Name of the format in the cache of record indexes; "" for no caching.

    Raises:
        SourceNotFoundError: A file does not exist.
        SourceError: A file cannot be read, or is damaged.
    """

    def __init__(self, paths: Sequence[str], find: Callable[[int, Opened, int], Places], what: str = "") -> None:
        self.paths = tuple(paths)
        self._find, self._what = find, what
        numbers = range(len(self.paths))
        self._far = np.array([is_remote(path) for path in self.paths], bool)
        files = map_or_raise(self._records_of, numbers, concurrent=bool(self._far.any()))
        self._stamps, starts, sizes, objects = zip(*files, strict=True)
        self._offsets = PartOffsets(map(len, starts))
        self.starts, self.sizes = np.concatenate(starts), np.concatenate(sizes)
        self.cost = ReadCost.STORE if self._far.any() else ReadCost.FILE
        self._objects = RangeReader(objects)

    def _records_of(self, number: int) -> tuple[Hashable, Indices, Indices, ObjectInfo]:
        """Return the state of a file, the offsets and sizes of its records, and its object info."""
        path = self.paths[number]
        with opening(path):
            file = open_file(path)
        with contextlib.closing(file):
            try:
                find = partial(self._find, number, file, file.size)
                starts, sizes = cached_record_index(path, file, self._what, find) if self._what else find()
            except PenstockError:
                raise
            except (OSError, ValueError) as error:
                raise SourceError(f"{path!r} cannot be read: {error_text(error)}") from error
        return file.state, starts, sizes, ObjectInfo(path, file.size, file.tag)

    def __len__(self) -> int:
        return len(self._offsets)

    def path(self, number: int) -> str:
        """Return the path of the file that holds a record."""
        return self.paths[self._offsets.locate(number)[0]]

    def describe(self, number: int) -> str:
        """Return the file and the offset of a record, for messages."""
        return f"{self.path(number)} at byte {self.starts[number]}"

    def source_info(self, number: int) -> str:
        """Return the file and the offset of a record in DALI's wording."""
        return f"{self.path(number)} at index {self.starts[number]}"

    def read(self, numbers: Indices, samples: Indices | None = None) -> list[Array]:
        """Read records, file by file in the order of their offsets. Returns them in the order of `numbers`.

        Args:
            numbers: Numbers of the records.
            samples: Sample index per record for errors; the number of the record by default.

        Raises:
            SampleError: A file became shorter, was written to, or cannot be read.
            ResourceError: A record is larger than a sample may be.
        """
        sizes = self.sizes[numbers]
        # Checked before memory is allocated for the sizes, which come from files or indexes.
        if len(sizes):
            largest = int(sizes.argmax())
            check_sample_size(int(sizes[largest]), self.describe(int(numbers[largest])))
        stops = np.cumsum(sizes)
        starts = stops - sizes
        data = np.empty(int(sizes.sum()), np.uint8)
        block = _RecordBlock(numbers, numbers if samples is None else samples, data, starts, stops)
        files = self._offsets.owners(numbers)
        places = np.lexsort((self.starts[numbers], files))
        if self.cost is ReadCost.STORE:
            far = self._far[files[places]]
            self._fetch(files, places[far], block)
            places = places[~far]
        for file in np.unique(files[places]).tolist():
            self._read_file(file, places[files[places] == file], block)
        return [data[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]

    def _read_file(self, file: int, places: Indices, block: _RecordBlock) -> None:
        """Read the records of one local file in the order of their offsets."""
        begins = self.starts[block.numbers[places]]
        ends = begins + self.sizes[block.numbers[places]]
        apart = (begins[1:] != ends[:-1]) | (block.starts[places[1:]] != block.stops[places[:-1]])
        runs = np.array([0, *(np.flatnonzero(apart) + 1), len(places)])  # adjacent records are read in one call
        bad = int(places[0])
        try:
            with contextlib.closing(LocalFile(self.paths[file])) as opened:
                if opened.state != self._stamps[file]:
                    raise ValueError("the file has been written to since the data set was opened")
                firsts, lasts = runs[:-1], runs[1:] - 1
                starts, lengths = begins[firsts], ends[lasts] - begins[firsts]
                if len(runs) > 2:
                    opened.advise(starts, lengths)
                if opened.read_ranges(starts, lengths, block.starts[places[firsts]], block.data):
                    return
                # Something is wrong with one of the records, or the system has no such call.
                view = block.data.data
                for first, last in itertools.pairwise(runs.tolist()):
                    bad = int(places[first])
                    whole = view[int(block.starts[bad]) : int(block.stops[places[last - 1]])]
                    try:
                        opened.fill(whole, int(begins[first]))
                    except (OSError, ValueError):
                        for number in range(first, last):  # find the one that fails
                            bad = int(places[number])
                            opened.fill(view[int(block.starts[bad]) : int(block.stops[bad])], int(begins[number]))
        except (OSError, ValueError) as error:
            raise self._unreadable(bad, block, error) from error

    def _fetch(self, files: Indices, places: Indices, block: _RecordBlock) -> None:
        """Read the records of objects."""
        begin = self.starts[block.numbers[places]]
        outs = [block.data[block.starts[place] : block.stops[place]] for place in places.tolist()]
        errors = self._objects.read(files[places], begin, begin + self.sizes[block.numbers[places]], outs)
        for part in sorted(errors):
            raise self._unreadable(int(places[part]), block, errors[part]) from errors[part]

    def byte_ranges(self, numbers: Indices) -> list[ByteRange]:
        """Return the byte ranges to prefetch from object stores for some records."""
        if self.cost is not ReadCost.STORE:
            return []
        files = self._offsets.owners(numbers)
        far = self._far[files] & (self.sizes[numbers] <= max_sample_size())  # `read` refuses the others
        begin = self.starts[numbers[far]]
        return self._objects.coalesced_ranges(files[far], begin, begin + self.sizes[numbers[far]])

    def _unreadable(self, place: int, block: _RecordBlock, error: OSError | ValueError) -> SampleError:
        return self.error(int(block.samples[place]), int(block.numbers[place]), f"cannot be read: {error_text(error)}")

    def error(self, index: int, number: int, what: str) -> SampleError:
        """Return the error of a sample whose record is damaged or cannot be read."""
        return SampleError.of(index, self.describe(number), what, self.path(number))

    def identity(self) -> tuple[Any, ...]:
        """Return the values that determine the records, as for `Source.identity`."""
        return self.paths, self._stamps, self.starts, self.sizes

    def fingerprint(self) -> str:
        """Return a short text that identifies the records by counts, sizes and names of files below their folder."""
        names = "\0".join(map(os.path.basename, self.paths))
        digest = short_digest(names, self._offsets.starts, self.starts, self.sizes)
        return f"{len(self)}:{digest}{folders_suffix(self.paths)}"


class HeaderReader:
    """Buffered reader of the headers of consecutive records.

    Args:
        file: The file with the records.
    """

    def __init__(self, file: Opened) -> None:
        self._file = file
        self._block, self._start, self._last = b"", 0, 0

    def read_at(self, at: int, count: int) -> bytes:
        """Return `count` bytes from byte `at`, or fewer at the end of the file."""
        if not self._start <= at <= self._start + len(self._block) - count:
            ahead = _AHEAD if at - self._last < _AHEAD // 8 else count
            self._block, self._start = self._file.pread(ahead, at), at
        self._last = at
        return self._block[at - self._start : at - self._start + count]
