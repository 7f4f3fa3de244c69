"""Compiled loops over the wire format of protocol buffers; see `protobuf_wire`.

An offset of -1 says that the bytes are not the expected ones, and passes through all later steps.
"""

from typing import Any

import numpy as np

from penstock.core import Array
from penstock.native.compiled import Compiled


@Compiled
def open_bytes(data: Array, at: int, end: int, tag: int) -> tuple[int, int]:
    """Return the first byte of a length-delimited field and the offset after it; -1 twice for another field.

    Args:
        data: uint8, the bytes.
        at: Offset of the field.
        end: End of the message, which the field must not exceed.
        tag: The field's tag: its number times 8, and 2.
    """
    size = skip_byte(data, at, end, tag)
    start = skip_varint(data, size, end)
    # Four bytes hold the length of a record; damaged ones could exceed the range of integers.
    if start < 0 or start - size > 4:
        return -1, -1
    stop = start + read_varint(data, size, start)
    return (start, stop) if stop <= end else (-1, -1)


@Compiled
def skip_byte(data: Array, at: int, end: int, byte: int) -> int:
    """Return the offset after an expected byte; -1 if another byte is there."""
    return at + 1 if 0 <= at < end and data[at] == byte else -1


@Compiled
def skip_varint(data: Array, at: int, end: int) -> int:
    """Return the offset after a varint; -1 if it does not end within ten bytes."""
    stop = min(at + 10, end)
    while 0 <= at < stop:
        at += 1
        if data[at - 1] < 0x80:
            return at
    return -1


@Compiled
def read_varint(data: Array, at: int, end: int) -> int:
    """Return the lowest 64 bits of a varint."""
    value: Any = np.int64(0)
    for place in range(at, end):
        value |= (np.int64(data[place]) & 0x7F) << 7 * (place - at)
    return value
