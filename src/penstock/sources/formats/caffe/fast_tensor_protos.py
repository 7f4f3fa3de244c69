"""Compiled parser for the usual form of Caffe2 records: an encoded image, then one INT32 label, fields in order."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array
from penstock.native.compiled import Compiled, precompile
from penstock.sources.formats.joined_records import scan_joined
from penstock.sources.formats.protobuf_loop import read_varint, skip_byte, skip_varint
from penstock.sources.formats.protobuf_wire import Record

# Bytes of a packed label: a varint of 32 bits has at most five.
_MOST_OF_A_LABEL = 5


def parse_common(records: Sequence[Record]) -> tuple[list[Array], NDArray[np.int32]] | None:
    """Return the images' bytes and the labels, (records, 1), if all records have the usual form; otherwise None.

    The result is the same as that of `penstock.sources.formats.caffe.tensor_protos.parse_tensor_protos`.
    """
    places, labels = np.empty((len(records), 2), np.int64), np.empty((len(records), 1), np.int32)
    data = scan_joined(scan_records, records, places, labels)
    if (places[:, 0] == places[:, 1]).any():
        return None
    return [part[start:stop] for part, (start, stop) in zip(data, places.tolist(), strict=True)], labels


@precompile("u1[1] i8[1] i8[2] i4[2]")
@Compiled
def scan_records(data: Array, ends: Array, places: Array, labels: Array) -> None:
    """Locate the images and read the labels of records.

    Args:
        data: uint8, the records, one after the other.
        ends: int64 (records,), end of each record.
        places: int64 (records, 2), receives the first byte and the end of each image; two equal numbers if the record
            does not have the usual form.
        labels: int32 (records, 1), receives the labels.
    """
    begin = 0
    for n in range(ends.shape[0]):
        labels[n, 0] = scan_record(data, begin, ends[n], places[n])
        begin = ends[n]


@Compiled
def scan_record(data: Array, begin: int, end: int, place: Array) -> int:
    """Return the label of a record, and write the location of its image."""
    place[0], place[1] = 0, 0
    # A tag is field number * 8 + wire type: 0x0A is TensorProtos.protos, and within a tensor 0x08 is dims, 0x10
    # data_type, 0x32 string_data, 0x20 and 0x22 int32_data (unpacked and packed). Offsets of -1 pass through all later
    # steps.
    first = skip_byte(data, begin, end, 0x0A)  # a tensor
    inner = skip_varint(data, first, end)
    at = inner
    while 0 <= at < end and data[at] == 0x08:  # its extents
        at = skip_varint(data, at + 1, end)
    at = skip_byte(data, skip_byte(data, at, end, 0x10), end, 4)  # of strings
    size = skip_byte(data, at, end, 0x32)  # the image
    start = skip_varint(data, size, end)
    if start < 0 or start - size > 4 or inner - first > 4:
        return 0
    stop = start + read_varint(data, size, start)
    if stop == start or inner + read_varint(data, first, inner) != stop:
        return 0
    at = skip_byte(data, stop, end, 0x0A)  # another tensor, up to the end
    if not 0 <= at < end or data[at] > 0x7F or at + 1 + data[at] != end:
        return 0
    at += 1
    if at < end and data[at] == 0x08:  # of one element
        at = skip_byte(data, at + 1, end, 1)
    at = skip_byte(data, skip_byte(data, at, end, 0x10), end, 2)  # of integers
    if not 0 <= at < end:
        return 0
    if data[at] == 0x22:  # the label, perhaps with its length
        at = skip_byte(data, at + 1, end, end - at - 2) if end - at - 2 <= _MOST_OF_A_LABEL else -1
    else:
        at = skip_byte(data, at, end, 0x20)
    if skip_varint(data, at, end) != end:
        return 0
    place[0], place[1] = start, stop
    value = read_varint(data, at, end) & 0xFFFFFFFF
    return value - (value >> 31 << 32)
