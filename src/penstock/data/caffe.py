"""Caffe data sets: LMDBs whose values are Datums, an image and its class.

The message: https://github.com/BVLC/caffe/blob/master/src/caffe/proto/caffe.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.data import protobuf
from penstock.data.lmdb_records import Databases, writing
from penstock.data.order import Indices
from penstock.data.protobuf import Record
from penstock.data.source import Array, Column, Source
from penstock.data.spec import Spec
from penstock.errors import SourceError

_CHANNELS, _HEIGHT, _WIDTH, _DATA, _LABEL, _FLOAT_DATA, _ENCODED = range(1, 8)
_INTEGERS = (_CHANNELS, _HEIGHT, _WIDTH, _LABEL, _ENCODED)
_CLASS = Spec(np.dtype(np.int32), (1,))


@dataclass(frozen=True, slots=True)
class Datum:
    """One record: the bytes of a file or pixels, and a class."""

    data: Record
    label: int | None
    shape: tuple[int, int, int] | None

    def image(self) -> Array:
        """Encoded bytes as 1-D uint8, or raw pixels as HWC.

        Raises:
            ValueError: the bytes are not as many as the extents say.
        """
        data = np.frombuffer(self.data, np.uint8) if len(self.data) else np.empty(0, np.uint8)
        if self.shape is None:
            return data
        height, width, channels = self.shape
        if min(self.shape) < 1 or height * width * channels != len(data):
            raise ValueError(f"{len(data)} bytes of pixels, where height, width and channels are {list(self.shape)}")
        return data.reshape(self.shape)


def parse(record: Record) -> Datum:
    """The Datum in the bytes of a record.

    It holds pixels if it says that it is not encoded; one that says nothing is encoded, as DALI reads it.

    Raises:
        ValueError: the bytes are no such record, or hold floats.
    """
    numbers: dict[int, int] = {}
    data: Record = b""
    for number, kind, first, second in protobuf.fields(record):
        if number in _INTEGERS:
            if kind != protobuf.VARINT:
                raise ValueError(f"field {number} of wire type {kind}, where a Datum has a number")
            numbers[number] = first
        elif number == _DATA:
            if kind != protobuf.BYTES:
                raise ValueError(f"field {number} of wire type {kind}, where a Datum has bytes")
            data = record[first:second]
        elif number == _FLOAT_DATA:
            raise ValueError("it holds floats (float_data), and only bytes are read")
    label = protobuf.signed(numbers[_LABEL], 32) if _LABEL in numbers else None
    if numbers.get(_ENCODED, 1):
        return Datum(data, label, None)
    height, width, channels = (protobuf.signed(numbers.get(each, 0), 32) for each in (_HEIGHT, _WIDTH, _CHANNELS))
    return Datum(data, label, (height, width, channels))


class CaffeSource(Source):
    """The records of one or several Caffe LMDBs, one database after the other.

    Args:
        paths: the LMDBs' folders.
        image_available: whether images are read.
        label_available: whether classes are read.

    Raises:
        SourceError: as `Databases`, or the first record is not what these arguments say.
    """

    def __init__(self, paths: tuple[str, ...], image_available: bool, label_available: bool) -> None:
        self._records = Databases(paths)
        self._read_as = self._image, self._label = image_available, label_available
        try:
            first = self._values(self._records.get(np.zeros(1, np.int64))[0])
        except ValueError as error:
            raise SourceError(f"{self.describe(0)} is no Caffe record: {error}") from error
        pixels = Spec(np.dtype(np.uint8), (None,) * first[0].ndim, "HWC" if first[0].ndim == 3 else "")
        self.specs = (*([pixels] if image_available else []), *([_CLASS] if label_available else []))

    def __len__(self) -> int:
        return len(self._records)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Encoded or raw images, and classes."""
        columns: tuple[list[Array], ...] = tuple([] for _ in self.specs)
        for index, record in zip(indices.tolist(), self._records.get(indices), strict=True):
            try:
                for column, spec, value in zip(columns, self.specs, self._values(record), strict=True):
                    if not spec.accepts(value):
                        raise ValueError(f"{value.dtype}{list(value.shape)} where sample 0 has {spec}")
                    column.append(value)
            except ValueError as error:
                raise self._records.error(index, f"is no Caffe record: {error}") from error
        return tuple(
            np.stack(column, out=slot) if spec.dense else column
            for column, spec, slot in zip(columns, self.specs, out, strict=True)
        )

    def _values(self, record: Record) -> list[Array]:
        datum = parse(record)
        values = [datum.image()] if self._image else []
        if self._label:
            if datum.label is None:
                raise ValueError("it has no label; label_available=False reads such records")
            values.append(np.array([datum.label], np.int32))
        return values

    def describe(self, index: int) -> str:
        """The database and the key."""
        return self._records.describe(index)

    def path(self, index: int) -> str:
        """The database's file."""
        return self._records.path(index)

    def same_data(self, other: Source) -> bool:
        """Whether the same records of the same databases are read in the same way."""
        return (
            isinstance(other, CaffeSource)
            and self._read_as == other._read_as  # noqa: SLF001  # one class
            and self._records.same_records(other._records)  # noqa: SLF001  # one class
        )

    def fingerprint(self) -> str:
        """The number of records, and the first and last of each database."""
        return f"caffe:{self._records.digest()}"


def write_caffe(path: str | Path, samples: Iterable[tuple[bytes, int]]) -> int:
    """Write encoded images and their classes as a Caffe LMDB, for tests, examples and conversions.

    Args:
        path: the folder to make; an LMDB that is there already is added to.
        samples: the bytes of an image file and its class, per record. Keys are their numbers, eight digits.

    Returns:
        How many records were written.

    Raises:
        MissingExtraError: the package lmdb is not installed.
    """
    count = 0
    with writing(path) as transaction:
        for image, label in samples:
            record = protobuf.encode_bytes(_DATA, image) + protobuf.encode_int(_LABEL, label)
            transaction.put(b"%08d" % count, record + protobuf.encode_int(_ENCODED, 1))
            count += 1
    return count
