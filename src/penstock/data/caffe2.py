"""Caffe2 data sets: LMDBs whose values are TensorProtos, an image and its labels."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from penstock.data import protobuf
from penstock.data.lmdb_records import LmdbRecords, open_records, writing
from penstock.data.order import Indices
from penstock.data.source import Array, Column, Source, stamp_of
from penstock.data.spec import Spec
from penstock.errors import SampleError, SourceError
from penstock.types import LabelType

# TensorProto: the data types that image records use, and the fields that hold their values
_FLOAT, _INT32, _BYTE, _STRING, _INT64 = 1, 2, 3, 4, 10
_DIMS, _DATA_TYPE, _FLOAT_DATA, _INT32_DATA, _BYTE_DATA, _STRING_DATA, _INT64_DATA = 1, 2, 3, 4, 5, 6, 10
_DTYPES = {_FLOAT: np.dtype(np.float32), _INT32: np.dtype(np.int32), _INT64: np.dtype(np.int64)}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One TensorProto: its declared shape and type, and its values as they were stored."""

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
        data = np.frombuffer(self.values[0], np.uint8) if self.values[0] else np.empty(0, np.uint8)
        if self.encoded():
            return data
        return data.reshape(self.dims if len(self.dims) > 2 else (*self.dims, 1))

    def numbers(self) -> Array:
        """Its values as int32, int64 or float32."""
        dtype = _DTYPES.get(self.data_type)
        if dtype is None:
            raise ValueError(f"a label of data type {self.data_type}; INT32, INT64 or FLOAT is needed")
        return np.array(self.values, dtype)


def parse(record: bytes) -> list[Tensor]:
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


def _parse_tensor(record: bytes, start: int, stop: int) -> Tensor:
    dims: list[int] = []
    data_type = 0
    values: list[Any] = []
    for number, kind, first, second in protobuf.fields(record, start, stop):
        if number == _DATA_TYPE:
            data_type = first
        elif number == _DIMS:
            dims += [first] if kind == protobuf.VARINT else _packed(record, first, second, 64)
        elif number in (_BYTE_DATA, _STRING_DATA) and kind == protobuf.BYTES:
            values.append(record[first:second])
        elif number in (_INT32_DATA, _INT64_DATA):
            bits = 32 if number == _INT32_DATA else 64
            if kind == protobuf.BYTES:
                values += _packed(record, first, second, bits)
            else:
                values.append(protobuf.signed(first, bits))
        elif number == _FLOAT_DATA:
            values += np.frombuffer(record[first:second], "<f4").tolist()
    return Tensor(tuple(dims), data_type, values)


# Most records are written alike: encoded image, then one INT32 label, fields in the order of their numbers.
_VARINT = rb"([\x80-\xff]*[\x00-\x7f])"
_IMAGE_HEAD = re.compile(rb"\n" + _VARINT + rb"(?:\x08[\x80-\xff]*[\x00-\x7f])*\x10\x04\x32" + _VARINT, re.DOTALL)
_LABEL_TENSOR = re.compile(rb"\n([\x00-\x7f])(?:\x08\x01)?\x10\x02(?:\x20|\x22[\x01-\x05])" + _VARINT, re.DOTALL)


def parse_common(record: bytes) -> tuple[bytes, int] | None:
    """Image bytes and label of a record that is written in the common way, else None.

    A shortcut: where it answers, `parse` finds the same image and label, in ten times the time.
    """
    head = _IMAGE_HEAD.match(record)
    if head is None:
        return None
    start = head.end()
    stop = start + _small(head[2])
    tail = _LABEL_TENSOR.fullmatch(record, stop)
    if tail is None or head.end(1) + _small(head[1]) != stop or stop + 2 + tail[1][0] != len(record) or start == stop:
        return None
    return record[start:stop], protobuf.signed(_small(tail[2]), 32)


def _small(encoded: bytes) -> int:
    return (encoded[0] & 0x7F) | encoded[1] << 7 if len(encoded) == 2 else protobuf.varint(encoded, 0)[0]


def _packed(record: bytes, at: int, stop: int, bits: int) -> list[int]:
    values: list[int] = []
    while at < stop:
        value, at = protobuf.varint(record, at)
        values.append(protobuf.signed(value, bits))
    return values


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
        self._parts: list[LmdbRecords] = [open_records(str(Path(path).resolve())) for path in paths]
        self._starts = np.cumsum([0, *(len(part) for part in self._parts)])
        self._read_as = (label_type, num_labels, additional_inputs, bbox, image_available)
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
            pairs = cast(list[tuple[bytes, int]], common)
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
                raise SampleError(f"sample {index} ({self.describe(index)}) is no Caffe2 record: {error}") from error
        return tuple(
            np.stack(column, out=slot) if spec.dense else column
            for column, spec, slot in zip(columns, self.specs, out, strict=True)
        )

    def _records(self, indices: Indices) -> list[bytes]:
        if len(self._parts) == 1:
            return self._parts[0].get(indices.tolist())
        parts = np.searchsorted(self._starts, indices, side="right") - 1
        numbers: list[int] = parts.tolist()
        inside: list[int] = (indices - self._starts[parts]).tolist()
        return [self._parts[p].get([i])[0] for p, i in zip(numbers, inside, strict=True)]

    def _values(self, record: bytes) -> list[Array]:
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
        if not np.all((numbers >= 0) & (numbers < self._num_labels)):
            raise ValueError(f"label {numbers.max()} with num_labels={self._num_labels}")
        weighted = self._label_type is LabelType.MULTI_LABEL_WEIGHTED_SPARSE
        vector = np.zeros(self._num_labels, np.float32 if weighted else np.int32)
        vector[numbers.astype(np.int64)] = tensors.pop(0).numbers() if weighted and tensors else 1
        return vector

    def describe(self, index: int) -> str:
        """The database and the key."""
        part = int(np.searchsorted(self._starts, index, side="right")) - 1
        records = self._parts[part]
        return f"{records.path} at key {records.key(index - int(self._starts[part])).decode('ascii', 'replace')}"

    def same_data(self, other: Source) -> bool:
        """Whether the same records of the same databases are read in the same way."""
        if not isinstance(other, Caffe2Source) or self._read_as != other._read_as:  # noqa: SLF001  # one class
            return False
        theirs = other._parts  # noqa: SLF001  # likewise
        return len(self._parts) == len(theirs) and all(map(LmdbRecords.same_records, self._parts, theirs))

    def fingerprint(self) -> str:
        """The number of records, and the first and last of each database."""
        digest = hashlib.sha256()
        for part in self._parts:
            for index in (0, len(part) - 1):
                digest.update(part.key(index) + part.get([index])[0])
        return f"caffe2:{len(self)}:{digest.hexdigest()[:16]}"


def stamp_of_caffe2(paths: tuple[str, ...]) -> Hashable:
    """What changes when one of the databases does."""
    return stamp_of(*(Path(path) / "data.mdb" for path in paths))


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
