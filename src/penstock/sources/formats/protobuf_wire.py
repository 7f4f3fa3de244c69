"""Wire format of protocol buffers, as far as image records use it.

See https://protobuf.dev/programming-guides/encoding, section "Message Structure": a message is a sequence of fields,
each with a tag (field number and wire type) and a value.
"""

from collections.abc import Iterator

# Wire types. 3 and 4 (groups) are deprecated; no record format here uses them.
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

# The bytes of a message.
Record = bytes | memoryview


def fields(data: Record, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, int, int, int]]:
    r"""Iterate over the fields of the message in data[start:stop].

    Yields:
        Field number, wire type, and two integers: for a varint its value and the offset after it, otherwise the offset
        of the payload and the offset after it.

    Raises:
        ValueError: The bytes are not a message.

    >>> data = b"\x08\x96\x01\x12\x02hi"
    >>> [(number, data[a:b] if kind == BYTES else a) for number, kind, a, b in fields(data)]
    [(1, 150), (2, b'hi')]
    """
    end = len(data) if stop is None else stop
    at = start
    try:
        while at < end:
            tag = data[at]
            at += 1
            # Most tags and lengths have one byte; the function call for longer ones is slow in comparison.
            if tag > 0x7F:
                tag, at = varint(data, at - 1)
            kind = tag & 7
            if kind == BYTES:
                size = data[at]
                at += 1
                if size > 0x7F:
                    size, at = varint(data, at - 1)
                value, after = at, at + size
            elif kind == VARINT:
                value, after = varint(data, at)
            elif kind in (FIXED32, FIXED64):
                value, after = at, at + (4 if kind == FIXED32 else 8)
            else:
                raise ValueError(f"unsupported wire type {kind} at byte {at - 1}")
            # Field number 0 is invalid. The check of the end keeps damaged lengths from reading outside of the message.
            if after > end or tag < 8:
                raise ValueError(f"a field that ends past the message, at byte {at}")
            yield tag >> 3, kind, value, after
            at = after
    except IndexError:
        raise ValueError("the message is cut short") from None


def varint(data: Record, at: int) -> tuple[int, int]:
    """Decode the varint at an offset, and return it with the offset after it.

    Raises:
        ValueError: It has more than ten bytes.
        IndexError: The data ends within it.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        # Ten bytes of seven bits hold 64 bits. Without a limit, damaged data would build an ever larger Python integer.
        if shift > 63:
            raise ValueError(f"an integer of more than ten bytes, at byte {at}")


def packed(data: Record, start: int, stop: int, bits: int) -> list[int]:
    """Decode the packed signed integers of `bits` bits in data[start:stop].

    Raises:
        ValueError: The last integer extends past `stop`.

    >>> packed(bytes([1, 2, 0x96, 1]), 1, 4, 32)
    [2, 150]
    """
    values: list[int] = []
    try:
        while start < stop:
            value, start = varint(data, start)
            values.append(signed(value, bits))
    except IndexError:
        start = stop + 1
    if start > stop:
        raise ValueError("integers that end past their field")
    return values


def encode_varint(value: int) -> bytes:
    """Encode an unsigned integer as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def encode_bytes(number: int, payload: bytes) -> bytes:
    """Encode field `number` with a length-delimited value."""
    return encode_varint(number << 3 | BYTES) + encode_varint(len(payload)) + payload


def encode_int(number: int, value: int) -> bytes:
    """Encode field `number` with an integer; negative integers as 64-bit two's complement."""
    return encode_varint(number << 3 | VARINT) + encode_varint(value & (1 << 64) - 1)


def signed(value: int, bits: int) -> int:
    """Interpret the value of an integer field as a signed integer of `bits` bits."""
    # Negative int32 values are sign-extended to 64 bits before encoding, so the upper half is dropped.
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
