"""Caffe2's records as most of them are written: an encoded image, then one INT32 label, fields by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array
from penstock.native.compiled import Compiled, precompile
from penstock.sources.formats.protobuf_wire import Record

_SMALL = 1 << 14
"""Up to how many bytes records have that are copied to be parsed together."""

_MOST_OF_A_LABEL = 5
"""How many bytes an integer has at most that is written with its length: 32 bits."""


def parse_common(records: Sequence[Record]) -> tuple[list[Array], NDArray[np.int32]] | None:
    """The images' bytes and the labels, (records, 1), of records that are all written in the common way; else None.

    A shortcut: where it answers, `penstock.sources.formats.caffe.tensor_protos.parse` finds the same images and labels.
    """
    sizes = list(map(len, records))
    if sum(sizes) > _SMALL * len(sizes):
        return _parse([np.frombuffer(record, np.uint8) for record in records], sizes)
    joined = np.frombuffer(b"".join(records), np.uint8)
    return _parse([joined], sizes)


def _parse(parts: Sequence[Array], sizes: Sequence[int]) -> tuple[list[Array], NDArray[np.int32]] | None:
    """The same for the bytes of all records together, or of each."""
    ends, places = np.array(sizes), np.empty((len(sizes), 2), np.int64)
    labels = np.empty((len(sizes), 1), np.int32)
    if len(parts) == 1:
        scan_records(parts[0], ends.cumsum(), places, labels)
        data = list(parts) * len(sizes)
    else:
        data = list(parts)
        for row, part in enumerate(parts):
            scan_records(part, ends[row : row + 1], places[row : row + 1], labels[row : row + 1])
    if (places[:, 0] == places[:, 1]).any():
        return None
    return [part[start:stop] for part, (start, stop) in zip(data, places.tolist(), strict=True)], labels


@precompile("u1[1] i8[1] i8[2] i4[2]")
@Compiled
def scan_records(data: Array, ends: Array, places: Array, labels: Array) -> None:
    """Find the images and labels of records.

    Args:
        data: uint8, the records, one after the other.
        ends: int64 (records,): where each ends.
        places: int64 (records, 2): written; where images begin and end, the same number for other records.
        labels: int32 (records, 1): written.
    """
    begin = 0
    for n in range(ends.shape[0]):
        labels[n, 0] = scan_record(data, begin, ends[n], places[n])
        begin = ends[n]


@Compiled
def scan_record(data: Array, begin: int, end: int, place: Array) -> int:
    """The label of a record, and where its image is."""
    place[0], place[1] = 0, 0
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


@Compiled
def skip_byte(data: Array, at: int, end: int, byte: int) -> int:
    """The place after a byte; -1 where another one is."""
    return at + 1 if 0 <= at < end and data[at] == byte else -1


@Compiled
def skip_varint(data: Array, at: int, end: int) -> int:
    """The place after an integer in the variable-length form; -1 where none is."""
    stop = min(at + 10, end)
    while 0 <= at < stop:
        at += 1
        if data[at - 1] < 0x80:
            return at
    return -1


@Compiled
def read_varint(data: Array, at: int, end: int) -> int:
    """The integer that is there, its lowest 64 bits."""
    value: Any = np.int64(0)
    for place in range(at, end):
        value |= (np.int64(data[place]) & 0x7F) << 7 * (place - at)
    return value
