"""TensorFlow's Example messages: named lists of bytes, floats or integers.

Their definition: https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/example/feature.proto
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array
from penstock.errors import DefinitionError, short_repr
from penstock.sources.formats.protobuf_wire import (
    BYTES,
    FIXED32,
    VARINT,
    encode_bytes,
    encode_varint,
    fields,
    packed,
    signed,
)
from penstock.sources.formats.tfrecord.feature_specs import Feature, VarLenFeature, float32, int64, string

KINDS = {1: string, 2: float32, 3: int64}
"""The number of the field in which a feature has its list, and the type that this means."""
_NAMES = {string: "string", float32: "float32", int64: "int64"}
DTYPES = {string: np.dtype(np.uint8), float32: np.dtype(np.float32), int64: np.dtype(np.int64)}
_SHORT = 16

Located = tuple[int, list[tuple[int, int, int]]]
"""The type of a feature, and what its list has: wire type and the two integers of `protobuf.fields`."""


def locate_features(data: memoryview, wanted: Mapping[bytes, Feature]) -> dict[bytes, Located]:
    """Return the positions of the wanted features in an Example. Absent features are omitted.

    Raises:
        ValueError: The bytes are not an Example.
    """
    located: dict[bytes, Located] = {}
    for number, kind, start, stop in fields(data):
        if number != 1 or kind != BYTES:
            continue
        for entry, entry_kind, begin, end in fields(data, start, stop):
            if entry != 1 or entry_kind != BYTES:
                continue
            name, value = b"", (0, 0)
            for part, part_kind, first, last in fields(data, begin, end):
                if part == 1 and part_kind == BYTES:
                    name = bytes(data[first:last])
                elif part == 2 and part_kind == BYTES:
                    value = (first, last)
            if name in wanted:
                # the last one counts, as in the protobuf library
                located[name] = _feature(data, *value) or (wanted[name].dtype, [])
    return located


def _feature(data: memoryview, start: int, stop: int) -> Located | None:
    located: Located | None = None
    for number, kind, begin, end in fields(data, start, stop):
        if number in KINDS and kind == BYTES:
            values = [(wire, a, b) for field, wire, a, b in fields(data, begin, end) if field == 1]
            before = located[1] if located is not None and located[0] == KINDS[number] else []
            located = KINDS[number], before + values
    return located if located is not None and located[1] else None  # an empty list has any type


def decode_feature(feature: Feature, located: Located | None, data: memoryview, pixels: Array) -> Array:
    """Return the value of a feature in one example, or its default value if the example lacks it.

    Args:
        feature: Declaration of the feature.
        located: Position of its values, from `locate_features`; None if the example lacks it.
        data: Bytes of the example.
        pixels: The same bytes as an array.

    Raises:
        ValueError: The feature differs in type or number of values from its declaration.
    """
    if located is None or not located[1]:
        return default_value(feature)
    kind, values = located
    if kind != feature.dtype:
        raise ValueError(f"it has the type {_NAMES[kind]}, and {_NAMES[feature.dtype]} is asked for")
    if kind == string:
        if len(values) != 1 or values[0][0] != BYTES:
            raise ValueError(f"it has {len(values)} strings, and a sample takes one")
        return pixels[values[0][1] : values[0][2]]
    numbers = _floats(values, data) if kind == float32 else _integers(values, data, pixels)
    size = math.prod(feature.shape)
    if isinstance(feature, VarLenFeature):
        if size == 0 or len(numbers) % size:
            raise ValueError(f"it has {len(numbers)} values, and rows of {list(feature.shape)} are asked for")
        return numbers.reshape(len(numbers) // size, *feature.shape)
    if not len(numbers) and size:
        return default_value(feature)  # some writers give what is missing as an empty list
    if len(numbers) != size:
        raise ValueError(f"it has {len(numbers)} values, and the shape {list(feature.shape)} is asked for")
    return numbers.reshape(feature.shape)


def default_value(feature: Feature) -> Array:
    """Return the value of a missing feature: empty if its length varies, otherwise the default value.

    Raises:
        ValueError: The feature does not have a default value.
        DefinitionError: The default value has another type or shape.
    """
    dtype = DTYPES[feature.dtype]
    if isinstance(feature, VarLenFeature) and feature.dtype != string:
        return np.empty((0, *feature.shape), dtype)
    value = feature.default_value
    if value is None:
        raise ValueError("it is missing, and there is no default value")
    try:
        if feature.dtype == string:
            text = value.encode() if isinstance(value, str) else bytes(memoryview(value))
            return np.frombuffer(text, np.uint8)
        return np.broadcast_to(np.asarray(value, dtype), feature.shape).copy()
    except (TypeError, ValueError, OverflowError):
        raise DefinitionError(
            "a feature's default value has another type or shape than the feature",
            given=short_repr(value),
            expected=f"{_NAMES[feature.dtype]}{list(feature.shape) if feature.shape else ''}",
        ) from None


def _floats(values: list[tuple[int, int, int]], data: memoryview) -> NDArray[np.float32]:
    parts: list[memoryview] = []
    for wire, start, stop in values:
        if wire not in (BYTES, FIXED32) or (stop - start) % 4:
            raise ValueError("its floats are damaged")
        parts.append(data[start:stop])
    joined = parts[0] if len(parts) == 1 else b"".join(parts)
    return np.frombuffer(joined, "<f4").astype(np.float32)


def _integers(values: list[tuple[int, int, int]], data: memoryview, pixels: Array) -> NDArray[np.int64]:
    parts: list[NDArray[np.int64]] = []
    for wire, start, stop in values:
        if wire == VARINT:
            parts.append(np.array([signed(start, 64)], np.int64))
        elif wire == BYTES and stop - start <= _SHORT:
            parts.append(np.array(packed(data, start, stop, 64), np.int64))
        elif wire == BYTES:
            parts.append(unpack(pixels[start:stop]))
        else:
            raise ValueError("its integers are damaged")
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def unpack(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Decode consecutive varints. Vectorized, so faster than `packed` for many integers.

    Raises:
        ValueError: The bytes end within an integer.

    >>> unpack(np.array([1, 2, 0x96, 1], np.uint8)).tolist()
    [1, 2, 150]
    """
    last = data < 0x80
    if not len(data) or not last[-1]:
        raise ValueError("integers that end past their field")
    stops = np.flatnonzero(last) + 1
    lengths = np.diff(stops, prepend=0)
    # A varint has seven bits per byte, so that 64 bits take at most ten.
    if lengths.max() > 10:
        raise ValueError("an integer of more than ten bytes")
    starts = stops - lengths
    places = (np.arange(len(data)) - np.repeat(starts, lengths)).astype(np.uint64)
    parts = (data & np.uint8(0x7F)).astype(np.uint64) << places * np.uint64(7)
    return np.bitwise_or.reduceat(parts, starts).view(np.int64)


def encode_example(features: Mapping[str, bytes | Sequence[int] | Sequence[float]]) -> bytes:
    """Encode an Example message, for tests, examples and conversions.

    Args:
        features: By name bytes, or a list of integers or floats.

    >>> example = memoryview(encode_example({"x": [1.5]}))
    >>> located = locate_features(example, {b"x": VarLenFeature(float32, 0.0)})
    >>> decode_feature(VarLenFeature(float32, 0.0), located[b"x"], example, np.asarray(example)).tolist()
    [1.5]
    """
    entries = b""
    for name, argument in features.items():
        if isinstance(argument, bytes):
            value = encode_bytes(1, encode_bytes(1, argument))
        elif any(isinstance(number, float | np.floating) for number in argument):
            value = encode_bytes(2, encode_bytes(1, np.asarray(argument, "<f4").tobytes()))
        else:
            value = encode_bytes(3, encode_bytes(1, b"".join(encode_varint(int(n) & (1 << 64) - 1) for n in argument)))
        entries += encode_bytes(1, encode_bytes(1, name.encode()) + encode_bytes(2, value))
    return encode_bytes(1, entries)
