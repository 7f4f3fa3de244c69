"""ArrayRecord files: records with random access, each verified by a hash. Needs the extra `array-record`."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from penstock.core import Array, Column, Indices, Spec, optional_import, short_digest
from penstock.errors import SourceError, SourceNotFoundError
from penstock.sources.formats.tfrecord.example_columns import Examples, Features
from penstock.sources.order.part_offsets import PartOffsets
from penstock.sources.source import Source
from penstock.sources.storage.file_folders import folders_suffix
from penstock.sources.storage.file_stamps import check_unchanged, file_stamps
from penstock.sources.storage.local_copies import LocalCopies

# Number of files that stay open between batches: the index of each open file is in memory.
_MAX_OPEN = 64
# Options that array_record recommends for random access: no readahead, no threads.
_OPTIONS = {"options": "readahead_buffer_size:0,max_parallelism:0", "file_reader_buffer_size": 1 << 15}


class ArrayRecordSource(Source):
    """Records of ArrayRecord files, file after file.

    Args:
        paths: The files. Remote objects are copied to a temporary folder, because array_record opens files by path.
        features: Features to parse from Example messages, sorted by name; empty to return the records themselves.

    Raises:
        MissingExtraError: array_record is not installed.
        SourceNotFoundError: A file does not exist.
        SourceError: A file is not an ArrayRecord file, or is damaged; there are no records; or the first one lacks a
            feature.
        DefinitionError: A default value does not match its feature.
    """

    specs = (Spec(np.dtype(np.uint8), (None,)),)
    per_process: ClassVar[Mapping[str, Callable[[], Any]]] = {"_readers": OrderedDict, "_lock": threading.Lock}

    def __init__(self, paths: tuple[str, ...], features: Features = ()) -> None:
        self._module = array_record_module("reading ArrayRecord files")
        self._paths, self._features = paths, features
        self._copies = LocalCopies(paths)
        self._files = self._copies.files
        self._stamps = [file_stamps(file) for file in self._files]
        self._readers: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._offsets = PartOffsets(map(self._count, range(len(paths))))
        if not len(self):
            raise SourceError("the ArrayRecord files are empty", given=", ".join(paths[:4]))
        self._examples = Examples(features) if features else None
        if self._examples is not None:
            self._examples.open(self, len(self))
            self.specs = self._examples.specs
            self.named_values = len(self.specs)

    def _count(self, file: int) -> int:
        path = self._paths[file]
        if not Path(self._files[file]).is_file():
            raise SourceNotFoundError(f"file {path!r} does not exist")
        try:
            return self._reader(file).num_records()
        except ValueError as error:
            raise SourceError(f"{path!r} cannot be read as an ArrayRecord file: {error}") from error

    def _reader(self, file: int) -> Any:
        """Return the open reader of a file.

        Raises:
            ValueError: The file is damaged, or has been modified.
        """
        check_unchanged(self._files[file], self._stamps[file])
        with self._lock:
            if file in self._readers:
                self._readers.move_to_end(file)
                return self._readers[file]
        reader = self._module.ArrayRecordReader(self._files[file], **_OPTIONS)
        # The library reports no reason, and would return 0 records.
        if not reader.ok():
            raise ValueError("it has a different format, is cut short, or its index is damaged")
        with self._lock:
            self._readers[file] = reader
            while len(self._readers) > _MAX_OPEN:
                self._readers.popitem(last=False)  # closed when the last thread drops its reference
        return reader

    def __len__(self) -> int:
        return len(self._offsets)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Return the records, or their features sorted by name."""
        if self._examples is not None:
            return self._examples.read(self, indices, out)
        return (self._rows(indices),)

    def messages(self, indices: Indices) -> Iterator[tuple[int, Array]]:
        """Iterate over the bytes of records, each with its index."""
        return zip(indices.tolist(), self._rows(indices), strict=True)

    def _rows(self, indices: Indices) -> list[Array]:
        """Return the bytes of records.

        Raises:
            SampleError: A file has been modified, or a record is damaged.
        """
        rows: list[Array] = [np.empty(0)] * len(indices)
        for file, places, numbers in self._offsets.split(indices):
            for place, record in zip(places.tolist(), self._records(file, numbers.tolist()), strict=True):
                rows[place] = np.frombuffer(record, np.uint8)
        return rows

    def _records(self, file: int, numbers: list[int]) -> list[bytes]:
        """Return records of one file.

        Raises:
            SampleError: The file has been modified, or a record is damaged; refers to the first such record.
        """
        bad = 0
        try:
            reader = self._reader(file)
            try:
                return reader.read(numbers)
            except RuntimeError:
                # The library does not report which record is damaged, so they are read one by one.
                records: list[bytes] = []
                for bad, number in enumerate(numbers):  # noqa: B007  # the error names it
                    records += reader.read([number])
                return records
        except (OSError, RuntimeError, ValueError) as error:
            index = int(self._offsets.starts[file]) + numbers[bad]
            raise self.sample_error(index, f"cannot be read: {error}") from error

    def describe(self, index: int) -> str:
        """Return the file and the record's number in it."""
        file, number = self._offsets.locate(index)
        return f"{self._paths[file]} at record {number}"

    def path(self, index: int) -> str:
        """Return the file."""
        return self._paths[self._offsets.locate(index)[0]]

    def identity(self) -> tuple[Any, ...]:
        """Return the files in their state, and the features."""
        return self._paths, self._copies.states, self._features

    def fingerprint(self) -> str:
        """Hash the names of the files below their common folder and their numbers of records."""
        names = "\0".join(map(os.path.basename, self._paths))
        return f"array_record:{len(self)}:{short_digest(names, self._offsets.starts)}{folders_suffix(self._paths)}"


def array_record_module(needed_for: str) -> Any:
    """Import the library's module, which has no type annotations.

    Args:
        needed_for: Function that needs it, for the message.

    Raises:
        MissingExtraError: It is not installed.
    """
    return optional_import.import_extra("array_record.python.array_record_module", "array-record", needed_for)
