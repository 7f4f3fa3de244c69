"""Features of many Example messages of the usual form: every feature once, with one value or packed numbers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array, Column, Indices
from penstock.native.argument_block import address, addresses
from penstock.sources.formats.protobuf_wire import BYTES
from penstock.sources.formats.tfrecord.example_loop import read_integers, scan_examples
from penstock.sources.formats.tfrecord.example_message import DTYPES, KINDS, decode_feature
from penstock.sources.formats.tfrecord.feature_specs import Feature, FixedLenFeature, float32, int64, string

# Messages that are worth the calls.
MIN_MESSAGES = 8

# Average size in bytes up to which messages are copied into one memory.
_SMALL = 1 << 14


def read_examples(messages: Sequence[Array], features: Sequence[tuple[str, bytes, Feature]]) -> list[Column] | None:
    """Return the values of each feature in all messages, or None if a message does not have the usual form.

    The result is the same as that of `decode_feature` for each message.

    Args:
        messages: Bytes of the messages.
        features: Name, encoded name and declaration of each feature.
    """
    placed = _in_one_memory(messages)
    if placed is None:
        return None
    memory, starts = placed
    stops = starts + np.array([message.size for message in messages])
    keys = [key for _, key, _ in features]
    found = np.zeros((len(messages), len(features), 3), np.int64)
    usual = np.empty(len(messages), np.bool_)
    names = np.frombuffer(b"".join(keys), np.uint8)
    scan_examples(memory, starts, stops, names, np.cumsum([len(key) for key in keys]), found, usual)
    if not usual.all():
        return None
    places = [np.ascontiguousarray(found[:, number]) for number in range(len(features))]
    try:
        return [_column(memory, place, feature) for place, (_, _, feature) in zip(places, features, strict=True)]
    except ValueError:
        return None


def _in_one_memory(messages: Sequence[Array]) -> tuple[Array, Indices] | None:
    """Return memory that contains all messages, and the first byte of each; None if it would be a large copy."""
    base: Any = messages[0].base
    shared = type(base) is np.ndarray and all(m.base is base and m.strides == (1,) for m in messages)
    if shared and base.dtype == np.uint8 and base.strides == (1,):
        return base, addresses(messages) - address(base)
    sizes = np.array([message.size for message in messages])
    if sizes.sum() > _SMALL * len(messages):
        return None
    return np.concatenate(messages), np.cumsum(sizes) - sizes


def _column(memory: Array, found: NDArray[np.int64], feature: Feature) -> Column:
    """Return the values of a feature.

    Args:
        memory: Memory that contains the messages.
        found: int64 (messages, 3), what `scan_examples` found.
        feature: The feature.

    Raises:
        ValueError: A message has no value for the feature, or another one than is declared.
    """
    kinds, places = found[:, 0], np.ascontiguousarray(found[:, 1:])
    if all(KINDS.get(kind) == feature.dtype for kind in np.unique(kinds).tolist()):
        if feature.dtype == string:
            return [memory[start:stop] for start, stop in places.tolist()]
        if isinstance(feature, FixedLenFeature) and (values := _fixed(memory, places, feature)) is not None:
            return values
    view: memoryview = memory.data
    return [
        decode_feature(feature, (KINDS[kind], [(BYTES, start, stop)]) if kind else None, view, memory)
        for kind, start, stop in found.tolist()
    ]


def _fixed(memory: Array, places: NDArray[np.int64], feature: FixedLenFeature) -> Array | None:
    """Return numbers of one shape, (messages, *shape), or None if a message has more or fewer."""
    size = math.prod(feature.shape)
    if feature.dtype == float32:
        width = size * DTYPES[float32].itemsize
        if (places[:, 1] - places[:, 0] != width).any():
            return None
        values = memory[places[:, :1] + np.arange(width)].view("<f4").astype(np.float32, copy=False)
    else:
        values, fits = np.empty((len(places), size), DTYPES[int64]), np.empty(len(places), np.bool_)
        read_integers(memory, places, values, fits)
        if not fits.all():
            return None
    return values.reshape(len(places), *feature.shape)
