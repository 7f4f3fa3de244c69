"""Parser for Caffe2's TensorProtos messages.

Message: https://github.com/pytorch/pytorch/blob/v1.13.1/caffe2/proto/caffe2.proto
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.sources.formats import protobuf_wire
from penstock.sources.formats.protobuf_wire import Record

# TensorProto: data types that image records use, and the fields that contain their values.
_FLOAT, INT32, _BYTE, STRING, _INT64 = 1, 2, 3, 4, 10
DIMS, DATA_TYPE, _FLOAT_DATA, INT32_DATA, _BYTE_DATA, STRING_DATA, _INT64_DATA = 1, 2, 3, 4, 5, 6, 10
_KINDS = {
    DIMS: (protobuf_wire.VARINT, protobuf_wire.BYTES),
    DATA_TYPE: (protobuf_wire.VARINT,),
    _FLOAT_DATA: (protobuf_wire.FIXED32, protobuf_wire.BYTES),
    INT32_DATA: (protobuf_wire.VARINT, protobuf_wire.BYTES),
    _BYTE_DATA: (protobuf_wire.BYTES,),
    STRING_DATA: (protobuf_wire.BYTES,),
    _INT64_DATA: (protobuf_wire.VARINT, protobuf_wire.BYTES),
}
_FIELDS = {
    _FLOAT: _FLOAT_DATA,
    INT32: INT32_DATA,
    _BYTE: _BYTE_DATA,
    STRING: STRING_DATA,
    _INT64: _INT64_DATA,
}
_DTYPES = {_FLOAT: np.dtype(np.float32), INT32: np.dtype(np.int32), _INT64: np.dtype(np.int64)}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A TensorProto: declared shape and type, and its values of this type."""

    dims: tuple[int, ...]
    data_type: int
    values: list[Any]

    def image(self) -> Array:
        """Return encoded bytes as 1-D uint8, or raw pixels as HWC."""
        if len(self.values) != 1 or self.data_type not in (STRING, _BYTE):
            raise ValueError("the first tensor is not an image (STRING or BYTE data)")
        data = np.frombuffer(self.values[0], np.uint8)
        if self.data_type == STRING:  # the bytes of an image file
            return data
        # Grayscale pixels may omit the channel.
        shape = self.dims if len(self.dims) > 2 else (*self.dims, 1)
        if len(shape) != 3 or min(shape) < 1 or math.prod(shape) != len(data):
            raise ValueError(f"{len(data)} bytes of pixels for dims {list(self.dims)}")
        return data.reshape(shape)

    def numbers(self) -> Array:
        """Return the values as int32, int64 or float32."""
        dtype = _DTYPES.get(self.data_type)
        if dtype is None:
            raise ValueError(f"a label has data type {self.data_type}; expected INT32, INT64 or FLOAT")
        return np.array(self.values, dtype)


def parse_tensor_protos(record: Record) -> list[Tensor]:
    """Parse a TensorProtos message.

    Raises:
        ValueError: The bytes are not such a message.
    """
    tensors: list[Tensor] = []
    for number, kind, start, stop in protobuf_wire.fields(record):
        if number != 1 or kind != protobuf_wire.BYTES:
            raise ValueError(f"field {number} has wire type {kind}; a TensorProtos has only field 1, tensors")
        tensors.append(_parse_tensor(record, start, stop))
    return tensors


def _parse_tensor(record: Record, start: int, stop: int) -> Tensor:
    dims: list[int] = []
    data_type = _FLOAT  # default of the message definition
    values: defaultdict[int, list[Any]] = defaultdict(list)
    for number, kind, first, second in protobuf_wire.fields(record, start, stop):
        # Readers of protocol buffers skip unknown fields.
        if number not in _KINDS:
            continue
        if kind not in _KINDS[number]:
            raise ValueError(f"field {number} of a tensor has wire type {kind}")
        if number == DATA_TYPE:
            data_type = first
        elif number == DIMS:
            dims += _integers(record, kind, first, second, 64)
        elif number in (INT32_DATA, _INT64_DATA):
            values[number] += _integers(record, kind, first, second, 32 if number == INT32_DATA else 64)
        elif number == _FLOAT_DATA:
            if (second - first) % 4:
                raise ValueError(f"{second - first} bytes of float data")
            values[number] += np.frombuffer(record[first:second], "<f4").tolist()
        else:
            values[number].append(record[first:second])
    return Tensor(tuple(dims), data_type, values.get(_FIELDS.get(data_type, 0), []))


def _integers(record: Record, kind: int, first: int, second: int, bits: int) -> list[int]:
    if kind == protobuf_wire.VARINT:
        return [protobuf_wire.signed(first, bits)]
    return protobuf_wire.packed(record, first, second, bits)
