"""TFRecord files: consecutive records with checksums that contain Example messages.

The format: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details. A record is the length
of its data (8 bytes), a checksum of the length (4), the data, and a checksum of the data (4).
"""

import functools
import struct
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import google_crc32c
import numpy as np

from penstock.core import Array, Column, Indices
from penstock.errors import SourceError
from penstock.sources.formats.decimal_index import read_pairs
from penstock.sources.formats.tfrecord.example_columns import Examples, Features
from penstock.sources.record_source import RecordSource
from penstock.sources.storage.random_access_file import Opened
from penstock.sources.storage.record_index_cache import Places
from penstock.sources.storage.record_ranges import HeaderReader, RecordRanges

_HEADER = struct.Struct("<QI")  # length of the data, checksum of the length
_HEAD, _TAIL = _HEADER.size, 4


class TFRecordSource(RecordSource[RecordRanges]):
    """Features of the Examples in TFRecord files. Verifies all checksums.

    Args:
        paths: The files, read in this order.
        indexes: An index per file in the format of DALI's ``tfrecord2idx``: per record a line with its offset and
            size. If empty, each file is walked once from record to record.
        features: Names and features, sorted by name.

    Raises:
        SourceNotFoundError: A file does not exist.
        SourceError: A file or an index is damaged, or an index belongs to another file.
        DefinitionError: A default value does not fit its feature.
    """

    def __init__(self, paths: tuple[str, ...], indexes: tuple[str, ...], features: Features) -> None:
        self._examples = Examples(features)
        records = RecordRanges(paths, functools.partial(_find, indexes), "" if indexes else "tfrecord")
        super().__init__(records, features)
        if not len(self):
            raise SourceError("the TFRecord files have no records", given=", ".join(paths[:4]))
        self.named_values = len(features)
        fix = "an index of these files; without index_path it is made" if indexes else None
        self._examples.open(self, len(self), fix)
        self.specs = self._examples.specs

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Read features, in the order of their names."""
        return self._examples.read(self, indices, out)

    def messages(self, indices: Indices) -> Iterator[tuple[int, Array]]:
        """Yield the index and the data of each record.

        Raises:
            SampleError: A record is damaged.
        """
        for index, record in zip(indices.tolist(), self.records.read(indices), strict=True):
            if reason := _damage(record):
                raise self.sample_error(index, f"is not a record of a TFRecord file, or is damaged: {reason}")
            yield index, record[_HEAD:-_TAIL]

    def fingerprint(self) -> str:
        """Return a text that identifies the files and their records."""
        return f"tfrecord:{self.records.fingerprint()}"


def masked_crc32c(data: bytes | Array) -> int:
    """Return the checksum of `data` in the form in which TFRecord files store it.

    The mask is LevelDB's: without it, data that contain CRCs themselves would weaken the checksum.
    """
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _damage(record: Array) -> str:
    """Return what is wrong with a record, "" for a sound one."""
    length, length_checksum = _HEADER.unpack_from(record.data)
    if length != len(record) - _HEAD - _TAIL:
        return "its length differs from the index"
    data_checksum = int.from_bytes(record[-_TAIL:].tobytes(), "little")
    sound = (masked_crc32c(record[:8]), masked_crc32c(record[_HEAD:-_TAIL])) == (length_checksum, data_checksum)
    return "" if sound else "a checksum is wrong"


def _find(indexes: tuple[str, ...], number: int, file: Opened, size: int) -> Places:
    return read_tfrecord_index(indexes[number], size) if indexes else _walk(file, size)


def read_tfrecord_index(index: str, size: int) -> Places:
    """Read the offsets and sizes of the records from an index.

    Raises:
        SourceNotFoundError: The index does not exist.
        SourceError: It is not an index, or exceeds a file of `size` bytes.
    """
    line = "its offset and its size in bytes"
    places = read_pairs(index, "TFRecord", line, fix="omit index_path to scan the files")
    starts, sizes = places[:, 0].copy(), places[:, 1].copy()
    if np.any((starts < 0) | (sizes < _HEAD + _TAIL) | (starts > size - sizes)):
        raise SourceError(f"the index {index!r} belongs to another file: it goes beyond its {size} bytes")
    return starts, sizes


def _walk(file: Opened, size: int) -> Places:
    """Find all records of a file by reading their headers.

    Raises:
        ValueError: The file is cut short, or is not a TFRecord file.
    """
    starts, sizes = array("q"), array("q")
    position, reader = 0, HeaderReader(file)
    while position < size:
        head = reader.read_at(position, _HEAD)
        length, checksum = _HEADER.unpack(head) if len(head) == _HEAD else (size, None)
        if checksum is not None and checksum != masked_crc32c(head[:8]):
            gzip = position == 0 and head[:2] == b"\x1f\x8b"
            reason = "it is compressed with gzip" if gzip else "its length has a wrong checksum"
            raise ValueError(f"no record begins at byte {position}: {reason}")
        if length > size - position - _HEAD - _TAIL:
            raise ValueError(f"the file is cut short: its last record begins at byte {position} and goes beyond {size}")
        starts.append(position)
        sizes.append(_HEAD + length + _TAIL)
        position += sizes[-1]
    return np.array(starts, np.int64), np.array(sizes, np.int64)


def write_tfrecord(path: str | Path, examples: Sequence[bytes]) -> int:
    """Write records as a TFRecord file, for tests, examples and conversions.

    Args:
        path: The file to write.
        examples: The records, for example serialized Example messages.

    Returns:
        The number of records.
    """
    with Path(path).open("wb") as file:
        for example in examples:
            parts = len(example).to_bytes(8, "little"), example
            file.writelines(part + masked_crc32c(part).to_bytes(4, "little") for part in parts)
    return len(examples)
