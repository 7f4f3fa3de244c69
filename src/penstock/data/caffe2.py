"""Caffe2 data sets: LMDBs whose values are TensorProtos, an image and its labels."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from penstock.data import protobuf
from penstock.data.lmdb_records import LmdbRecords, writing
from penstock.data.order import Indices
from penstock.data.protobuf import Record
from penstock.data.source import Array, Column, Source, shared
from penstock.data.spec import Spec
from penstock.errors import SampleError, SourceError
from penstock.types import LabelType

# TensorProto: the data types that image records use, and the fields that hold their values
_FLOAT, _INT32, _BYTE, _STRING, _INT64 = 1, 2, 3, 4, 10
_DIMS, _DATA_TYPE, _FLOAT_DATA, _INT32_DATA, _BYTE_DATA, _STRING_DATA, _INT64_DATA = 1, 2, 3, 4, 5, 6, 10
_KINDS = {
    _DIMS: (protobuf.VARINT, protobuf.BYTES),
    _DATA_TYPE: (protobuf.VARINT,),
    _FLOAT_DATA: (protobuf.FIXED32, protobuf.BYTES),
    _INT32_DATA: (protobuf.VARINT, protobuf.BYTES),
    _BYTE_DATA: (protobuf.BYTES,),
    _STRING_DATA: (protobuf.BYTES,),
    _INT64_DATA: (protobuf.VARINT, protobuf.BYTES),
}
_FIELDS = {
    _FLOAT: _FLOAT_DATA,
    _INT32: _INT32_DATA,
    _BYTE: _BYTE_DATA,
    _STRING: _STRING_DATA,
    _INT64: _INT64_DATA,
}
_DTYPES = {_FLOAT: np.dtype(np.float32), _INT32: np.dtype(np.int32), _INT64: np.dtype(np.int64)}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One TensorProto: its declared shape and type, and the values that it has of this type."""

    dims: tuple[int, ...]
    data_type: int
    values: list[Any]

    def encoded(self) -> bool:
        """Whether it holds the bytes of an image file rather than pixels."""
        return self.data_type == _STRING

    def image(self) -> Array:
        """Encoded bytes as 1-D uint8, or raw pixels as HWC."""
        if len(self.values) != 1 or self.data_type not in (_STRING, _BYTE):
            raise ValueError("the first proto holds no image (STRING or BYTE data)")
        data = np.frombuffer(self.values[0], np.uint8) if len(self.values[0]) else np.empty(0, np.uint8)
        if self.encoded():
            return data
        shape = self.dims if len(self.dims) > 2 else (*self.dims, 1)
        if len(shape) != 3 or min(shape) < 1 or math.prod(shape) != len(data):
            raise ValueError(f"{len(data)} bytes of pixels for dims {list(self.dims)}")
        return data.reshape(shape)

    def numbers(self) -> Array:
        """Its values as int32, int64 or float32."""
        dtype = _DTYPES.get(self.data_type)
        if dtype is None:
            raise ValueError(f"a label of data type {self.data_type}; INT32, INT64 or FLOAT is needed")
        return np.array(self.values, dtype)


def parse(record: Record) -> list[Tensor]:
    """The tensors of a TensorProtos record.

    Raises:
        ValueError: the bytes are no such record.
    """
    tensors: list[Tensor] = []
    for number, kind, start, stop in protobuf.fields(record):
        if number != 1 or kind != protobuf.BYTES:
            raise ValueError(f"field {number} of wire type {kind}; a TensorProtos has only field 1, tensors")
        tensors.append(_parse_tensor(record, start, stop))
    return tensors


def _parse_tensor(record: Record, start: int, stop: int) -> Tensor:
    dims: list[int] = []
    data_type = _FLOAT  # what the message says where it says nothing
    values: dict[int, list[Any]] = {}
    for number, kind, first, second in protobuf.fields(record, start, stop):
        if number not in _KINDS:
            continue
        if kind not in _KINDS[number]:
            raise ValueError(f"field {number} of a tensor with wire type {kind}")
        if number == _DATA_TYPE:
            data_type = first
        elif number == _DIMS:
            dims += _integers(record, kind, first, second, 64)
        elif number in (_INT32_DATA, _INT64_DATA):
            values.setdefault(number, []).extend(
                _integers(record, kind, first, second, 32 if number == _INT32_DATA else 64)
            )
        elif number == _FLOAT_DATA:
            if (second - first) % 4:
                raise ValueError(f"{second - first} bytes of float data")
            values.setdefault(number, []).extend(np.frombuffer(record[first:second], "<f4").tolist())
        else:
            values.setdefault(number, []).append(record[first:second])
    return Tensor(tuple(dims), data_type, values.get(_FIELDS.get(data_type, 0), []))


def _integers(record: Record, kind: int, first: int, second: int, bits: int) -> list[int]:
    if kind == protobuf.VARINT:
        return [protobuf.signed(first, bits)]
    return protobuf.packed(record, first, second, bits)


# Most records are written alike: encoded image, then one INT32 label, fields in the order of their numbers.
_LONG = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_IMAGE_HEAD = re.compile(rb"\n(" + _LONG + rb")(?:\x08" + _LONG + rb")*\x10\x04\x32(" + _LONG + rb")", re.DOTALL)
_LABEL_TENSOR = re.compile(
    rb"\n([\x00-\x7f])(?:\x08\x01)?\x10\x02(?:\x20|\x22([\x01-\x05]))(" + _LONG + rb")", re.DOTALL
)


def parse_common(record: Record) -> tuple[Record, int] | None:
    """Image bytes and label of a record that is written in the common way, else None.

    A shortcut: where it answers, `parse` finds the same image and label, in ten times the time.
    """
    head = _IMAGE_HEAD.match(record)
    if head is None:
        return None
    start = head.end()
    stop = start + _small(head[2])
    tail = _LABEL_TENSOR.fullmatch(record, stop) if stop <= len(record) else None
    if tail is None or head.end(1) + _small(head[1]) != stop or stop + 2 + tail[1][0] != len(record) or start == stop:
        return None
    if tail[2] is not None and tail[2][0] != len(tail[3]):
        return None
    return record[start:stop], protobuf.signed(_small(tail[3]), 32)


def _small(encoded: bytes) -> int:
    return (encoded[0] & 0x7F) | encoded[1] << 7 if len(encoded) == 2 else protobuf.varint(encoded, 0)[0]


class Caffe2Source(Source):
    """The records of one or several Caffe2 LMDBs, one behind the other.

    Args:
        paths: the LMDBs' folders.
        label_type: how the protos behind the image are read.
        num_labels: the length of a sparse label vector.
        additional_inputs: how many further tensors a record has.
        bbox: whether a record ends with a bounding box.
        image_available: whether a record begins with an image.

    Raises:
        SourceError: as `LmdbRecords`, or the first record is not what these arguments say.
    """

    def __init__(
        self,
        paths: tuple[str, ...],
        label_type: LabelType,
        num_labels: int,
        additional_inputs: int,
        bbox: bool,
        image_available: bool,
    ) -> None:
        self._parts: list[LmdbRecords] = [shared(LmdbRecords, str(Path(path).resolve())) for path in paths]
        self._starts = np.cumsum([0, *(len(part) for part in self._parts)])
        self._label_type, self._num_labels = label_type, num_labels
        self._additional, self._bbox, self._image = additional_inputs, bbox, image_available
        try:
            first = self._values(self._parts[0].get([0])[0])
        except ValueError as error:
            raise SourceError(f"{self.describe(0)} is no Caffe2 record: {error}") from error
        self.specs = tuple(self._spec(position, value) for position, value in enumerate(first))
        single = image_available and not additional_inputs and not bbox and label_type is LabelType.SINGLE_LABEL
        self._common = single and [(s.dtype, s.shape) for s in self.specs] == [
            (np.uint8, (None,)),
            (np.int32, (1,)),
        ]

    def _spec(self, position: int, value: Array) -> Spec:
        if self._image and position == 0:
            return Spec(value.dtype, (None,) * value.ndim, "HWC" if value.ndim == 3 else "")
        label = self._label_type is not LabelType.NO_LABEL and position == int(self._image)
        if label and self._label_type is not LabelType.MULTI_LABEL_DENSE:
            return Spec(value.dtype, value.shape)
        return Spec(value.dtype, (4,) if self._bbox and value.shape == (4,) else (None,))

    def __len__(self) -> int:
        return int(self._starts[-1])

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """The values of the records at `indices`: encoded or raw image, labels, further tensors, box."""
        records = self._records(indices)
        common = [parse_common(record) for record in records] if self._common else [None]
        if None not in common:
            pairs = cast(list[tuple[Record, int]], common)
            labels = np.array([label for _, label in pairs], np.int32).reshape(-1, 1)
            return [np.frombuffer(image, np.uint8) for image, _ in pairs], labels
        columns: tuple[list[Array], ...] = tuple([] for _ in self.specs)
        for index, record in zip(indices.tolist(), records, strict=True):
            try:
                values = self._values(record)
                for column, spec, value in zip(columns, self.specs, values, strict=True):
                    if not spec.accepts(value):
                        raise ValueError(f"{value.dtype}{list(value.shape)} where sample 0 has {spec}")
                    column.append(value)
            except ValueError as error:
                source = self.describe(index)
                what = f"sample {index} ({source}) is no Caffe2 record: {error}"
                raise SampleError(what, index=index, source=source, path=self._file(index)) from error
        return tuple(
            np.stack(column, out=slot) if spec.dense else column
            for column, spec, slot in zip(columns, self.specs, out, strict=True)
        )

    def _records(self, indices: Indices) -> list[Record]:
        if len(self._parts) == 1:
            return self._parts[0].get(indices.tolist())
        parts = np.searchsorted(self._starts, indices, side="right") - 1
        numbers: list[int] = parts.tolist()
        records: list[Record] = [b""] * len(indices)
        for part in sorted(set(numbers)):
            places = np.flatnonzero(parts == part)
            first = int(self._starts[part])
            try:
                found = self._parts[part].get((indices[places] - first).tolist())
            except SampleError as error:
                if error.index is None or not first:
                    raise
                index = error.index + first  # its number in all databases together
                what = str(error.args[0]).replace(f"sample {error.index} ", f"sample {index} ", 1)
                raise SampleError(what, index=index, source=error.source, path=error.path) from error
            for place, record in zip(places.tolist(), found, strict=True):
                records[place] = record
        return records

    def _values(self, record: Record) -> list[Array]:
        tensors = parse(record)
        values: list[Array] = []
        if self._image:
            if not tensors:
                raise ValueError("it has no tensors")
            values.append(tensors.pop(0).image())
        if self._label_type is not LabelType.NO_LABEL:
            values.append(self._label(tensors))
        wanted = self._additional + self._bbox
        if len(tensors) < wanted:
            raise ValueError(f"{wanted} further tensors are asked for, it has {len(tensors)}")
        values += [tensor.numbers() for tensor in tensors[:wanted]]
        return values

    def _label(self, tensors: list[Tensor]) -> Array:
        if not tensors:
            raise ValueError("it has no label; label_type=NO_LABEL reads such records")
        numbers = tensors.pop(0).numbers()
        if self._label_type is LabelType.SINGLE_LABEL and len(numbers) != 1:
            raise ValueError(f"{len(numbers)} labels, where a record has one (label_type=SINGLE_LABEL)")
        if self._label_type in (LabelType.SINGLE_LABEL, LabelType.MULTI_LABEL_DENSE):
            return numbers
        inside = (numbers >= 0) & (numbers < self._num_labels) & (numbers == np.floor(numbers))
        if not np.all(inside):
            raise ValueError(f"label {numbers[~inside][0]} with num_labels={self._num_labels}")
        weighted = self._label_type is LabelType.MULTI_LABEL_WEIGHTED_SPARSE
        vector = np.zeros(self._num_labels, np.float32 if weighted else np.int32)
        vector[numbers.astype(np.int64)] = tensors.pop(0).numbers() if weighted and tensors else 1
        return vector

    def describe(self, index: int) -> str:
        """The database and the key."""
        part = int(np.searchsorted(self._starts, index, side="right")) - 1
        records = self._parts[part]
        return f"{records.path} at key {records.key(index - int(self._starts[part])).decode('ascii', 'replace')}"

    def _file(self, index: int) -> str:
        return self._parts[int(np.searchsorted(self._starts, index, side="right")) - 1].file

    def fingerprint(self) -> str:
        """The number of records, and the first and last of each database."""
        digest = hashlib.sha256()
        for part in self._parts:
            for index in (0, len(part) - 1):
                digest.update(part.key(index) + part.get([index])[0])
        return f"caffe2:{len(self)}:{digest.hexdigest()[:16]}"


def write_caffe2(path: str | Path, samples: Iterable[tuple[bytes, int]]) -> int:
    """Write encoded images and their labels as a Caffe2 LMDB, for tests, examples and conversions.

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
            one = protobuf.encode_int(_DIMS, 1)
            pixels = one + protobuf.encode_int(_DATA_TYPE, _STRING) + protobuf.encode_bytes(_STRING_DATA, image)
            target = one + protobuf.encode_int(_DATA_TYPE, _INT32) + protobuf.encode_int(_INT32_DATA, label)
            record = protobuf.encode_bytes(1, pixels) + protobuf.encode_bytes(1, target)
            transaction.put(b"%08d" % count, record)
            count += 1
    return count
