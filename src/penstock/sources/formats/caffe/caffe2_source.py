"""Caffe2 data sets: LMDBs of TensorProtos messages, each with an image and its labels."""

from collections.abc import Iterable, Sequence
from itertools import starmap
from pathlib import Path

import numpy as np

from penstock.core import Array, Column, Indices, Spec
from penstock.sources.formats import protobuf_wire
from penstock.sources.formats.caffe.fast_tensor_protos import parse_common
from penstock.sources.formats.caffe.tensor_protos import (
    DATA_TYPE,
    DIMS,
    INT32,
    INT32_DATA,
    STRING,
    STRING_DATA,
    Tensor,
    parse_tensor_protos,
)
from penstock.sources.formats.lmdb.lmdb_records import write_records
from penstock.sources.formats.lmdb.lmdb_source import LmdbSource
from penstock.sources.formats.protobuf_wire import Record
from penstock.types import LabelType


class Caffe2Source(LmdbSource):
    """Records of one or several Caffe2 LMDBs, one database after the other.

    Args:
        paths: Folders of the LMDBs.
        label_type: Format of the tensors after the image.
        num_labels: Length of a label vector for the sparse label types.
        additional_inputs: Number of further tensors.
        bbox: True if a record ends with a bounding box.
        image_available: True if a record begins with an image.

    Raises:
        SourceError: As `LmdbRecordStore`, or the first record does not match the arguments.
    """

    format = "Caffe2"

    def __init__(
        self,
        paths: tuple[str, ...],
        label_type: LabelType,
        num_labels: int,
        additional_inputs: int,
        bbox: bool,
        image_available: bool,
    ) -> None:
        self._label_type, self._num_labels = label_type, num_labels
        self._additional, self._bbox, self._image = additional_inputs, bbox, image_available
        self.named_values = int(image_available)
        super().__init__(paths, (label_type, num_labels, additional_inputs, bbox, image_available))
        single = image_available and not additional_inputs and not bbox and label_type is LabelType.SINGLE_LABEL
        # The usual form of records has a compiled parser; see `fast_tensor_protos`.
        self._common = single and [(s.dtype, s.shape) for s in self.specs] == [
            (np.uint8, (None,)),
            (np.int32, (1,)),
        ]

    def _specs_of(self, first: Sequence[Array]) -> tuple[Spec, ...]:
        return tuple(self._spec(position, value) for position, value in enumerate(first))

    def _spec(self, position: int, value: Array) -> Spec:
        if self._image and position == 0:
            return Spec(value.dtype, (None,) * value.ndim, "HWC" if value.ndim == 3 else "")
        label = self._label_type is not LabelType.NO_LABEL and position == int(self._image)
        if label and self._label_type is not LabelType.MULTI_LABEL_DENSE:
            return Spec(value.dtype, value.shape)
        # A box has four coordinates; other tensors may differ in length between records.
        return Spec(value.dtype, (4,) if self._bbox and value.shape == (4,) else (None,))

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Return the values of the records at `indices`: encoded or raw image, labels, further tensors, box."""
        common = parse_common(self.records.get(indices)) if self._common else None
        return super().read(indices, out) if common is None else common

    def _values(self, record: Record) -> list[Array]:
        tensors = parse_tensor_protos(record)
        values: list[Array] = []
        if self._image:
            if not tensors:
                raise ValueError("the record does not contain tensors")
            values.append(tensors.pop(0).image())
        if self._label_type is not LabelType.NO_LABEL:
            values.append(self._label(tensors))
        wanted = self._additional + self._bbox
        if len(tensors) < wanted:
            raise ValueError(f"{wanted} further tensors are requested, but the record has {len(tensors)}")
        values += [tensor.numbers() for tensor in tensors[:wanted]]
        return values

    def _label(self, tensors: list[Tensor]) -> Array:
        if not tensors:
            raise ValueError("the record does not contain a label; label_type=NO_LABEL reads such records")
        numbers = tensors.pop(0).numbers()
        if self._label_type is LabelType.SINGLE_LABEL and len(numbers) != 1:
            raise ValueError(f"the record has {len(numbers)} labels, but label_type=SINGLE_LABEL expects one")
        if self._label_type in (LabelType.SINGLE_LABEL, LabelType.MULTI_LABEL_DENSE):
            return numbers
        # Labels index a vector of num_labels entries, so they must be integers in range.
        inside = (numbers >= 0) & (numbers < self._num_labels) & (numbers == np.floor(numbers))
        if not np.all(inside):
            raise ValueError(f"label {numbers[~inside][0]} with num_labels={self._num_labels}")
        weighted = self._label_type is LabelType.MULTI_LABEL_WEIGHTED_SPARSE
        vector = np.zeros(self._num_labels, np.float32 if weighted else np.int32)
        vector[numbers.astype(np.int64)] = tensors.pop(0).numbers() if weighted and tensors else 1
        return vector


def write_caffe2(path: str | Path, samples: Iterable[tuple[bytes, int]]) -> int:
    """Write encoded images and their labels as a Caffe2 LMDB, for tests, examples and conversions.

    Args:
        path: Folder to create; records are added to an existing LMDB.
        samples: Bytes of an image file and its class, per record. Keys are record numbers of eight digits.

    Returns:
        Number of records written.

    Raises:
        MissingExtraError: The package lmdb is not installed.
    """

    def record(image: bytes, label: int) -> bytes:
        one = protobuf_wire.encode_int(DIMS, 1)
        pixels = one + protobuf_wire.encode_int(DATA_TYPE, STRING) + protobuf_wire.encode_bytes(STRING_DATA, image)
        target = one + protobuf_wire.encode_int(DATA_TYPE, INT32) + protobuf_wire.encode_int(INT32_DATA, label)
        return protobuf_wire.encode_bytes(1, pixels) + protobuf_wire.encode_bytes(1, target)

    return write_records(path, starmap(record, samples))
