"""Compiled parser for Caffe's records: an image or pixels and a label, in fields of any order."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array
from penstock.native.compiled import Compiled, precompile
from penstock.sources.formats.joined_records import scan_joined
from penstock.sources.formats.protobuf_loop import open_bytes, read_varint, skip_varint
from penstock.sources.formats.protobuf_wire import Record

# Entries of a row of `scan_datums`: the numbers of a Datum by their field, and three more in place of fields that are
# no numbers.
_LABELED, _HEIGHT, _WIDTH, _CHANNELS, _START, _LABEL, _STOP, _ENCODED = 0, 2, 3, 1, 4, 5, 6, 7
_ENTRIES = 8

# Tags: a field's number times 8, and its wire type, 0 for numbers and 2 for bytes.
_DATA_TAG, _LABEL_TAG, _ENCODED_TAG = 0x22, 0x28, 0x38


def parse_datums(
    records: Sequence[Record], *, pixels: bool | None, labeled: bool
) -> tuple[list[Array], NDArray[np.int32]] | None:
    """Return the images and the labels, (records, 1), of records; None if a record is damaged or of another form.

    The result is the same as that of `penstock.sources.formats.caffe.caffe_source.parse_datum` for each record.

    Args:
        records: The messages.
        pixels: True if they contain pixels, which become HWC; False if they contain the bytes of image files; None if
            only the labels are needed.
        labeled: True if a record without a label is an error. Otherwise its label is 0.
    """
    numbers, usual = np.empty((len(records), _ENTRIES), np.int64), np.empty(len(records), np.bool_)
    data = scan_joined(scan_datums, records, numbers, usual)
    if not usual.all() or (labeled and not numbers[:, _LABELED].all()):
        return None
    labels = numbers[:, _LABEL : _LABEL + 1].astype(np.int32)
    if pixels is None:
        return [], labels
    if ((numbers[:, _ENCODED] == 0) != pixels).any():
        return None
    places = numbers[:, [_START, _STOP]].tolist()
    images = [part[start:stop] for part, (start, stop) in zip(data, places, strict=True)]
    if pixels:
        shapes = numbers[:, [_HEIGHT, _WIDTH, _CHANNELS]].tolist()
        if any(min(shape) < 1 or math.prod(shape) != image.size for image, shape in zip(images, shapes, strict=True)):
            return None
        images = [image.reshape(shape) for image, shape in zip(images, shapes, strict=True)]
    return images, labels


@precompile("u1[1] i8[1] i8[2] b1[1]")
@Compiled
def scan_datums(data: Array, ends: Array, numbers: Array, usual: Array) -> None:
    """Locate the data and read the numbers of Datum messages.

    Args:
        data: uint8, the messages, one after the other.
        ends: int64 (records,), end of each message.
        numbers: int64 (records, 8), receives the numbers of each message by their field; a label is there, first byte
            and end of the data at 0, 4 and 6.
        usual: bool (records,), receives False for a message that is damaged or has other fields.
    """
    begin = 0
    for n in range(ends.shape[0]):
        usual[n] = scan_datum(data, begin, ends[n], numbers[n])
        begin = ends[n]


@Compiled
def scan_datum(data: Array, begin: int, end: int, numbers: Array) -> bool:
    """Scan a message. Returns False if it is damaged or has other fields."""
    for entry in range(_ENTRIES):
        numbers[entry] = 0
    numbers[_ENCODED] = 1  # also without the field, as in DALI
    at = begin
    while at < end:
        tag = data[at]
        if tag == _DATA_TAG:
            start, at = open_bytes(data, at, end, _DATA_TAG)
            if start < 0:
                return False
            numbers[_START], numbers[_STOP] = start, at
            continue
        if tag != 0x08 and tag != 0x10 and tag != 0x18 and tag != _LABEL_TAG and tag != _ENCODED_TAG:
            return False
        after = skip_varint(data, at + 1, end)
        # Only the first of several bytes of a truth value is read here.
        if after < 0 or (tag == _ENCODED_TAG and after != at + 2):
            return False
        value = read_varint(data, at + 1, after) & 0xFFFFFFFF
        numbers[tag >> 3] = value - (value >> 31 << 32)
        if tag == _LABEL_TAG:
            numbers[_LABELED] = 1
        at = after
    return True
