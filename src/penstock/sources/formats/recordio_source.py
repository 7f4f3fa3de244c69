"""RecordIO files of MXNet: records of an image and its labels.

Format: https://mxnet.apache.org/versions/1.9.1/api/architecture/note_data_loading. A part consists of a magic number (4
bytes), 3 bits of its kind and 29 bits of its length (4 bytes), and the data, padded to a multiple of 4. A record whose
data contain the magic number is split there into several parts. The data begin with a header: the number of labels, or
0 for a single one; one label; and two ids of the image.
"""

import struct
from array import array
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from penstock.core import Array, Column, Indices, Spec
from penstock.errors import SampleError, SourceError
from penstock.sources.formats.decimal_index import read_pairs
from penstock.sources.record_source import RecordSource
from penstock.sources.storage.random_access_file import Opened, open_file
from penstock.sources.storage.record_index_cache import Places
from penstock.sources.storage.record_ranges import HeaderReader, RecordRanges
from penstock.sources.storage.store_requests import map_concurrently

_MAGIC = 0xCED7230A
_MAGIC_BYTES = np.frombuffer(_MAGIC.to_bytes(4, "little"), np.uint8)
_PART = struct.Struct("<II")
_HEADER = struct.Struct("<IfQQ")
# Kinds of parts (cflag in dmlc-core's recordio.h).
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)


class RecordIOSource(RecordSource[RecordRanges]):
    """Images and labels of RecordIO files, file after file.

    Args:
        paths: The files.
        indexes: One index per file in the format of MXNet's ``im2rec``, with the key and offset of a record per line;
            or one index with offsets into the concatenation of all files. Without an index, the files are scanned once.

    Raises:
        SourceNotFoundError: A file does not exist.
        SourceError: A file or an index is damaged, or an index belongs to a different file.
    """

    def __init__(self, paths: tuple[str, ...], indexes: tuple[str, ...]) -> None:
        super().__init__(
            RecordRanges(paths, _Index(indexes, paths).find) if indexes else RecordRanges(paths, _walk, "recordio")
        )
        if not len(self):
            raise SourceError("the RecordIO files are empty", given=", ".join(paths[:4]))
        labels: Spec = Spec(np.dtype(np.float32), (None,))
        self.specs = Spec(np.dtype(np.uint8), (None,)), labels
        try:
            _, first = self.read(np.zeros(1, np.int64), [None, None])
        except SampleError as error:
            fix = "pass the index of these files, or omit index_path to scan them" if indexes else None
            raise SourceError(f"the first record cannot be read: {error.args[0]}", fix=fix) from error
        if len(first[0]) == 1:
            self.specs = self.specs[0], Spec(np.dtype(np.float32), (1,))

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Return the encoded images and their labels."""
        images: list[Array] = []
        labels: list[Array] = []
        for index, record in zip(indices.tolist(), self.records.read(indices), strict=True):
            try:
                image, label = parse_record(record)
                if not self.specs[1].accepts(label):
                    raise ValueError(f"it has {len(label)} labels, but the first record has one")
            except ValueError as error:
                raise self.sample_error(index, f"cannot be read: {error}") from error
            images.append(image)
            labels.append(label)
        return images, np.stack(labels, out=out[1]) if self.specs[1].dense else labels

    def fingerprint(self) -> str:
        """Combine the names of the files and the sizes of the records."""
        return f"mxnet:{self.records.fingerprint()}"


def parse_record(data: Array) -> tuple[Array, Array]:
    """Parse the record at the beginning of `data`, and return its image and labels.

    Raises:
        ValueError: A record does not begin there, or it is cut short.

    >>> image, labels = parse_record(np.frombuffer(encode_record(b"a jpeg", [2.0, 0.5]), np.uint8))
    >>> bytes(image), labels.tolist()
    (b'a jpeg', [2.0, 0.5])
    """
    payload = _payload(data)
    if len(payload) < _HEADER.size:
        raise ValueError(f"the record has {len(payload)} bytes, fewer than its header ({_HEADER.size})")
    count, label, _, _ = _HEADER.unpack(payload[: _HEADER.size].tobytes())
    if not count:
        return payload[_HEADER.size :], np.array([label], np.float32)
    begin = _HEADER.size + 4 * count
    if begin > len(payload):
        raise ValueError(f"the header declares {count} labels, but the record has only {len(payload)} bytes")
    labels = payload[_HEADER.size : begin].copy().view("<f4")
    return payload[begin:], labels.astype(np.float32, copy=False)


def _payload(data: Array) -> Array:
    """Return the data of a record, joined from its parts.

    Raises:
        ValueError: A record does not begin there, or it is cut short.
    """
    parts: list[Array] = []
    at = 0
    while True:
        if len(data) - at < _PART.size:
            raise ValueError("it is cut short")
        kind, length = _head(data[at : at + _PART.size].tobytes(), first=not parts)
        at += _PART.size
        if length > len(data) - at:
            raise ValueError(f"it is cut short after {len(data) - at} of {length} bytes")
        part = data[at : at + length]
        if kind == _WHOLE:
            return part
        # The magic number at which the data were split is not stored.
        parts += [part] if kind == _FIRST else [_MAGIC_BYTES, part]
        if kind == _LAST:
            return np.concatenate(parts)
        at += length + -length % 4


def _head(head: bytes, *, first: bool) -> tuple[int, int]:
    """Return kind and length of the part that begins with these eight bytes.

    Raises:
        ValueError: They are not the header of a part.
    """
    magic, word = _PART.unpack(head)
    kind, length = word >> 29, word & (1 << 29) - 1
    if magic != _MAGIC:
        raise ValueError("a record does not begin there" if first else "the next part of the record does not follow")
    if kind not in ((_WHOLE, _FIRST) if first else (_MIDDLE, _LAST)):
        raise ValueError(f"a part has kind {kind} where a record {'begins' if first else 'continues'}")
    return kind, length


class _Index:
    """Offsets of records from the index files.

    Args:
        names: One index per file, or one for all.
        paths: The files.

    Raises:
        SourceNotFoundError: An index does not exist.
        SourceError: A file is not an index.
    """

    def __init__(self, names: tuple[str, ...], paths: tuple[str, ...]) -> None:
        self._names, self._last = names, len(paths) - 1
        line, fix = "its key and its offset in bytes", "omit index_path to scan the files"
        self._starts = [np.sort(read_pairs(name, "RecordIO", line, fix)[:, 1]) for name in names]
        sizes = map_concurrently(_size, paths) if len(names) == 1 < len(paths) else []
        # A file that cannot be opened is reported when its records are read.
        known = [0 if isinstance(size, OSError) else size for size in sizes]
        # Offsets of an index for all files include the files before.
        self._before = np.cumsum([0, *known])

    def find(self, number: int, file: Opened, size: int) -> Places:
        """Return the offsets and sizes of a file's records."""
        if len(self._names) == 1:
            name, starts = self._names[0], self._starts[0] - self._before[number]
            first, last = number == 0, number == self._last
            # Invalid offsets before the first file and after the last one are kept, and reported below.
            starts = starts[(first | (starts >= 0)) & (last | (starts < size))]
        else:
            name, starts = self._names[number], self._starts[number]
        if np.any((starts < 0) | (starts > size - _PART.size)) or np.any(np.diff(starts) <= 0):
            reason = f"its offsets do not ascend within {size} bytes"
            raise SourceError(f"the index {name!r} belongs to a different file: {reason}")
        return starts, np.diff(starts, append=size)


def _size(path: str) -> int:
    with closing(open_file(path)) as file:
        return file.size


def _walk(_number: int, file: Opened, size: int) -> Places:
    """Find the records of a file by reading the headers of its parts.

    Raises:
        ValueError: The file is cut short, or is not a RecordIO file.
    """
    starts = array("q")
    heads, at, whole = HeaderReader(file), 0, True
    while at < size:
        head = heads.read_at(at, _PART.size)
        if len(head) < _PART.size:
            raise ValueError(f"the file is cut short: {size - at} bytes follow the last record")
        try:
            kind, length = _head(head, first=whole)
        except ValueError as error:
            raise ValueError(f"{error} (byte {at})") from None
        if whole:
            starts.append(at)
        whole = kind in (_WHOLE, _LAST)
        at += _PART.size + length
        if at > size:
            raise ValueError(
                f"the file is cut short: its last record begins at byte {starts[-1]} and goes beyond {size}"
            )
        at += -length % 4
    if not whole:
        raise ValueError(f"the file is cut short: the record at byte {starts[-1]} has no last part")
    return np.array(starts, np.int64), np.diff(starts, append=size)


def encode_record(image: bytes, labels: Sequence[float], number: int = 0) -> bytes:
    """Encode a record as MXNet does, for tests, examples and conversions.

    Args:
        image: Content of the image file.
        labels: One or several labels.
        number: Id of the image.
    """
    one = len(labels) == 1
    header = _HEADER.pack(0 if one else len(labels), labels[0] if one else 0.0, number, 0)
    data = header + (b"" if one else np.array(labels, "<f4").tobytes()) + image
    # dmlc-core searches for the magic number at multiples of 4 only.
    cuts = [at for at in range(0, len(data) - 3, 4) if data[at : at + 4] == _MAGIC_BYTES.tobytes()]
    starts, stops = [0, *(at + 4 for at in cuts)], [*cuts, len(data)]
    record = b""
    for place, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        kind = _WHOLE if not cuts else _FIRST if not place else _LAST if place == len(cuts) else _MIDDLE
        record += _PART.pack(_MAGIC, kind << 29 | stop - start) + data[start:stop] + bytes(-(stop - start) % 4)
    return record


def write_recordio(path: str | Path, records: Sequence[bytes]) -> str:
    """Write a RecordIO file and its index, for tests, examples and conversions.

    Args:
        path: File to write; the index has the suffix ``.idx``.
        records: Results of `encode_record`.

    Returns:
        Path of the index.
    """
    starts = np.cumsum([0, *map(len, records)])[:-1].tolist()
    Path(path).write_bytes(b"".join(records))
    index = Path(path).with_suffix(".idx")
    index.write_text("".join(f"{number}\t{start}\n" for number, start in enumerate(starts)))
    return str(index)
