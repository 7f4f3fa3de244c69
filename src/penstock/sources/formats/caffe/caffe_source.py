"""Caffe data sets: LMDBs whose values are Datums, an image and its class.

The message: https://github.com/BVLC/caffe/blob/master/src/caffe/proto/caffe.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.sources.formats import protobuf_wire
from penstock.sources.formats.lmdb.lmdb_records import write_records
from penstock.sources.formats.lmdb.lmdb_source import LmdbSource
from penstock.sources.formats.protobuf_wire import Record

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


def parse_datum(record: Record) -> Datum:
    """The Datum in the bytes of a record.

    It holds pixels if it says that it is not encoded; one that says nothing is encoded, as DALI reads it.

    Raises:
        ValueError: the bytes are no such record, or hold floats.
    """
    numbers: dict[int, int] = {}
    data: Record = b""
    for number, kind, first, second in protobuf_wire.fields(record):
        if number in _INTEGERS:
            if kind != protobuf_wire.VARINT:
                raise ValueError(f"field {number} of wire type {kind}, where a Datum has a number")
            numbers[number] = first
        elif number == _DATA:
            if kind != protobuf_wire.BYTES:
                raise ValueError(f"field {number} of wire type {kind}, where a Datum has bytes")
            data = record[first:second]
        elif number == _FLOAT_DATA:
            raise ValueError("it holds floats (float_data), and only bytes are read")
    label = protobuf_wire.signed(numbers[_LABEL], 32) if _LABEL in numbers else None
    if numbers.get(_ENCODED, 1):
        return Datum(data, label, None)
    height, width, channels = (protobuf_wire.signed(numbers.get(each, 0), 32) for each in (_HEIGHT, _WIDTH, _CHANNELS))
    return Datum(data, label, (height, width, channels))


class CaffeSource(LmdbSource):
    """The records of one or several Caffe LMDBs, one database after the other.

    Args:
        paths: the LMDBs' folders.
        image_available: whether images are read.
        label_available: whether classes are read.

    Raises:
        SourceError: as `LmdbRecordStore`, or the first record is not what these arguments say.
    """

    format = "Caffe"

    def __init__(self, paths: tuple[str, ...], image_available: bool, label_available: bool) -> None:
        self._image, self._label = image_available, label_available
        self.named_values = int(image_available)
        super().__init__(paths, (image_available, label_available))

    def _specs_of(self, first: Sequence[Array]) -> tuple[Spec, ...]:
        pixels = Spec(np.dtype(np.uint8), (None,) * first[0].ndim)  # DALI names no axes, either
        return (*([pixels] if self._image else []), *([_CLASS] if self._label else []))

    def _values(self, record: Record) -> list[Array]:
        datum = parse_datum(record)
        values = [datum.image()] if self._image else []
        if self._label:
            if datum.label is None:
                raise ValueError("it has no label; label_available=False reads such records")
            values.append(np.array([datum.label], np.int32))
        return values


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

    def record(image: bytes, label: int) -> bytes:
        numbers = protobuf_wire.encode_int(_LABEL, label) + protobuf_wire.encode_int(_ENCODED, 1)
        return protobuf_wire.encode_bytes(_DATA, image) + numbers

    return write_records(path, starmap(record, samples))
