"""Caffe data sets: LMDBs of Datum messages, each with an image and its class.

Message: https://github.com/BVLC/caffe/blob/master/src/caffe/proto/caffe.proto.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path

import numpy as np

from penstock.core import Array, Column, Indices, Spec
from penstock.sources.formats import protobuf_wire
from penstock.sources.formats.caffe.fast_datums import parse_datums
from penstock.sources.formats.lmdb.lmdb_records import write_records
from penstock.sources.formats.lmdb.lmdb_source import LmdbSource
from penstock.sources.formats.protobuf_wire import Record

# Field numbers of the message Datum.
_CHANNELS, _HEIGHT, _WIDTH, _DATA, _LABEL, _FLOAT_DATA, _ENCODED = range(1, 8)
_INTEGERS = (_CHANNELS, _HEIGHT, _WIDTH, _LABEL, _ENCODED)
_CLASS = Spec(np.dtype(np.int32), (1,))


@dataclass(frozen=True, slots=True)
class Datum:
    """A record: the bytes of an image file, or pixels, and a class."""

    data: Record
    label: int | None
    shape: tuple[int, int, int] | None

    def image(self) -> Array:
        """Return encoded bytes as 1-D uint8, or raw pixels as HWC.

        Raises:
            ValueError: The number of bytes does not match the extents.
        """
        data = np.frombuffer(self.data, np.uint8)
        if self.shape is None:
            return data
        height, width, channels = self.shape
        if min(self.shape) < 1 or height * width * channels != len(data):
            raise ValueError(f"{len(data)} bytes of pixels do not match height, width, channels = {list(self.shape)}")
        return data.reshape(self.shape)


def parse_datum(record: Record) -> Datum:
    """Parse a Datum message.

    The data is pixels if `encoded` is false; a message without the field counts as encoded, as in DALI.

    Raises:
        ValueError: The bytes are not a Datum, or contain floats.
    """
    numbers: dict[int, int] = {}
    data: Record = b""
    for number, kind, first, second in protobuf_wire.fields(record):
        if number in _INTEGERS:
            if kind != protobuf_wire.VARINT:
                raise ValueError(f"field {number} has wire type {kind}; a Datum has a number there")
            numbers[number] = first
        elif number == _DATA:
            if kind != protobuf_wire.BYTES:
                raise ValueError(f"field {number} has wire type {kind}; a Datum has bytes there")
            data = record[first:second]
        elif number == _FLOAT_DATA:
            raise ValueError("the record contains floats (float_data), but only bytes are supported")
    label = protobuf_wire.signed(numbers[_LABEL], 32) if _LABEL in numbers else None
    if numbers.get(_ENCODED, 1):
        return Datum(data, label, None)
    height, width, channels = (protobuf_wire.signed(numbers.get(key, 0), 32) for key in (_HEIGHT, _WIDTH, _CHANNELS))
    return Datum(data, label, (height, width, channels))


class CaffeSource(LmdbSource):
    """Records of one or several Caffe LMDBs, one database after the other.

    Args:
        paths: Folders of the LMDBs.
        image_available: True to read images.
        label_available: True to read classes.

    Raises:
        SourceError: As `LmdbRecordStore`, or the first record does not match the arguments.
    """

    format = "Caffe"

    def __init__(self, paths: tuple[str, ...], image_available: bool, label_available: bool) -> None:
        self._image, self._label = image_available, label_available
        self.named_values = int(image_available)
        super().__init__(paths, (image_available, label_available))
        self._pixels = len(self.specs[0].shape) == len("HWC") if image_available else None

    def _specs_of(self, first: Sequence[Array]) -> tuple[Spec, ...]:
        pixels = Spec(np.dtype(np.uint8), (None,) * first[0].ndim)  # no layout, as in DALI
        return (*([pixels] if self._image else []), *([_CLASS] if self._label else []))

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Return the values of the records at `indices`: encoded or raw image, class."""
        parsed = parse_datums(self.records.get(indices), pixels=self._pixels, labeled=self._label)
        if parsed is None:
            return super().read(indices, out)
        images, labels = parsed
        return (*([images] if self._image else []), *([labels] if self._label else []))

    def _values(self, record: Record) -> list[Array]:
        datum = parse_datum(record)
        values = [datum.image()] if self._image else []
        if self._label:
            if datum.label is None:
                raise ValueError("the record does not contain a label; label_available=False reads such records")
            values.append(np.array([datum.label], np.int32))
        return values


def write_caffe(path: str | Path, samples: Iterable[tuple[bytes, int]]) -> int:
    """Write encoded images and their classes as a Caffe LMDB, for tests, examples and conversions.

    Args:
        path: Folder to create; records are added to an existing LMDB.
        samples: Bytes of an image file and its class, per record. Keys are record numbers of eight digits.

    Returns:
        Number of records written.

    Raises:
        MissingExtraError: The package lmdb is not installed.
    """

    def record(image: bytes, label: int) -> bytes:
        numbers = protobuf_wire.encode_int(_LABEL, label) + protobuf_wire.encode_int(_ENCODED, 1)
        return protobuf_wire.encode_bytes(_DATA, image) + numbers

    return write_records(path, starmap(record, samples))
