"""TFRecord files: records with checksums, one after the other, that hold Example messages.

The format: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details. A record is its length
(8 bytes), a checksum of that (4), the data, and a checksum of those (4).
"""

from __future__ import annotations

import functools
import struct
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array, Column, Indices
from penstock.errors import SampleError, SourceError, SourceNotFoundError
from penstock.sources.formats.decimal_index import decimals
from penstock.sources.formats.tfrecord.examples import Examples, Features
from penstock.sources.record_source import RecordSource
from penstock.sources.source import Source
from penstock.sources.storage.crc32c import masked_crc32c
from penstock.sources.storage.disk_cache import read_bytes
from penstock.sources.storage.random_access_file import Opened
from penstock.sources.storage.record_ranges import HeaderReader, RecordBlock, RecordRanges

_HEAD, _TAIL = 12, 4


class TFRecordSource(RecordSource[RecordRanges]):
    """Features of the Examples in TFRecord files, file after file. All checksums are verified.

    Args:
        paths: the files.
        indexes: an index per file, as DALI's ``tfrecord2idx`` writes it: a line per record with the byte at which it
            begins and its bytes. Without them the files are walked through once, from record to record.
        features: names and what they are read as, sorted by name.

    Raises:
        SourceNotFoundError: a file does not exist.
        SourceError: a file or an index is damaged, or an index belongs to another file.
        DefinitionError: a default value does not fit its feature.
    """

    def __init__(self, paths: tuple[str, ...], indexes: tuple[str, ...], features: Features) -> None:
        self._examples = Examples(features)
        super().__init__(RecordRanges(paths, functools.partial(_find, indexes), "" if indexes else "tfrecord"))
        if not len(self):
            raise SourceError("the TFRecord files have no records", given=", ".join(paths[:4]))
        self.named_values = len(features)
        try:
            self._examples.open(self, len(self))
        except SampleError as error:
            fix = "an index of these files; without index_path it is made" if indexes else None
            raise SourceError(f"the first record cannot be read: {error.args[0]}", fix=fix) from error
        self.specs = self._examples.specs

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """The features, in the order of their names."""
        return self._examples.read(self, indices, out)

    def messages(self, indices: Indices) -> Iterator[tuple[int, Array]]:
        """The content of records, each with its index.

        Raises:
            SampleError: a record is damaged.
        """
        block = self.records.read(indices)
        self._verify(indices, block)
        for index, start, stop in zip(indices.tolist(), block.starts.tolist(), block.stops.tolist(), strict=True):
            yield index, block.data[start + _HEAD : stop - _TAIL]

    def error(self, index: int, reason: str) -> SampleError:
        """The error of a record."""
        return self.records.error(index, index, reason)

    def _verify(self, indices: Indices, block: RecordBlock) -> None:
        """Check lengths and checksums.

        Raises:
            SampleError: one is wrong.
        """
        places = block.starts[:, None] + np.arange(_HEAD)
        heads = block.data[places]
        lengths = np.ascontiguousarray(heads[:, :8]).view("<i8")[:, 0]
        ends = block.data[block.stops[:, None] - np.arange(_TAIL, 0, -1)]
        wrong_length = lengths != block.stops - block.starts - _HEAD - _TAIL
        wrong = wrong_length | (masked_crc32c(block.data, block.starts, block.starts + 8) != _words(heads[:, 8:]))
        wrong |= masked_crc32c(block.data, block.starts + _HEAD, block.stops - _TAIL) != _words(ends)
        for place in np.flatnonzero(wrong)[:1].tolist():
            index = int(indices[place])
            reason = "its length is another one" if wrong_length[place] else "a checksum is wrong"
            raise self.records.error(index, index, f"is no record of a TFRecord file, or is damaged: {reason}")

    def reads_same_samples(self, other: Source) -> bool:
        """Whether the same features of the same records are read."""
        return (
            isinstance(other, TFRecordSource)
            and self._examples.features == other._examples.features  # noqa: SLF001  # one class
            and self.records.same_records(other.records)
        )

    def fingerprint(self) -> str:
        """The names of the files, and the sizes of the records."""
        return f"tfrecord:{self.records.fingerprint()}"


def _words(data: Array) -> NDArray[np.uint32]:
    return np.ascontiguousarray(data).view("<u4")[:, 0].astype(np.uint32)


Places = tuple[NDArray[np.int64], NDArray[np.int64]]


def _find(indexes: tuple[str, ...], number: int, file: Opened, size: int) -> Places:
    return read_tfrecord_index(indexes[number], size) if indexes else _walk(file, size)


def read_tfrecord_index(index: str, size: int) -> Places:
    """The records that an index lists.

    Raises:
        SourceNotFoundError: there is no index.
        SourceError: it is none, or goes beyond the end of a file of `size` bytes.
    """
    try:
        text = read_bytes(index)
    except FileNotFoundError:
        raise SourceNotFoundError(f"there is no index {index!r}", fix="without index_path it is made") from None
    except OSError as error:
        raise SourceError(f"the index {index!r} cannot be read: {error.strerror}") from error
    try:
        places = decimals(text).reshape(-1, 2)
    except ValueError:
        raise SourceError(
            f"{index!r} is no index of a TFRecord file",
            expected="a line per record: the byte at which it begins, and its bytes",
            fix="without index_path it is made",
        ) from None
    starts, sizes = places[:, 0].copy(), places[:, 1].copy()
    if np.any((starts < 0) | (sizes < _HEAD + _TAIL) | (starts > size - sizes)):
        raise SourceError(f"the index {index!r} belongs to another file: it goes beyond its {size} bytes")
    return starts, sizes


def _walk(file: Opened, size: int) -> Places:
    """Every record of a file, found by reading their lengths.

    Raises:
        ValueError: the file is cut short, or is no TFRecord file.
    """
    starts, sizes = array("q"), array("q")
    heads = bytearray()
    at, ahead = 0, HeaderReader(file)
    while at < size:
        head = ahead.read_at(at, _HEAD)
        length = struct.unpack("<Q", head[:8])[0] if len(head) == _HEAD else 0
        if len(head) < _HEAD or length > size - at - _HEAD - _TAIL:
            if len(head) == _HEAD and not _sound(head):
                packed = ": it is compressed with gzip" if not at and head[:2] == b"\x1f\x8b" else ""
                raise ValueError(f"no record begins at byte {at}{packed}")
            raise ValueError(f"the file is cut short: its last record begins at byte {at} and goes beyond {size}")
        heads += head
        starts.append(at)
        sizes.append(_HEAD + length + _TAIL)
        at += sizes[-1]
    if not _sound(heads):
        raise ValueError("the length of a record has a wrong checksum")
    return np.array(starts, np.int64), np.array(sizes, np.int64)


def _sound(heads: bytes | bytearray) -> bool:
    """Whether all lengths have their checksums."""
    data = np.frombuffer(heads, np.uint8)
    starts = np.arange(0, len(data), _HEAD)
    return not len(data) or bool(
        np.all(masked_crc32c(data, starts, starts + 8) == _words(data.reshape(-1, _HEAD)[:, 8:]))
    )


def write_tfrecord(path: str | Path, examples: Sequence[bytes]) -> int:
    """Write records as a TFRecord file, for tests, examples and conversions.

    Args:
        path: the file to write.
        examples: the records, Example messages for instance.

    Returns:
        How many were written.
    """
    with Path(path).open("wb") as file:
        for example in examples:
            for part in (struct.pack("<Q", len(example)), example):
                data = np.frombuffer(part, np.uint8)
                checksum = masked_crc32c(data, np.zeros(1, np.int64), np.array([len(part)]))
                file.write(part + checksum.astype("<u4").tobytes())
    return len(examples)
