"""Examples that are parsed together: the same values as those of each alone, or none."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import MUTATIONS, mutated

from penstock.errors import SampleError
from penstock.sources.formats.protobuf_wire import encode_bytes, encode_int, encode_varint
from penstock.sources.formats.tfrecord import example_columns, example_loop, fast_examples
from penstock.sources.formats.tfrecord.example_message import decode_feature, encode_example, locate_features
from penstock.sources.formats.tfrecord.fast_examples import read_examples
from penstock.sources.formats.tfrecord.feature_specs import FixedLenFeature, VarLenFeature, float32, int64, string
from penstock.sources.formats.tfrecord.tfrecord_source import TFRecordSource, write_tfrecord

FEATURES = {
    "box": VarLenFeature([2], float32, 0.0),
    "grid": FixedLenFeature([2, 2], float32, 0.5),
    "image": FixedLenFeature((), string, ""),
    "label": FixedLenFeature([1], int64, -1),
    "pair": FixedLenFeature([2], int64, None),
    "words": VarLenFeature(int64, 0),
}
COLUMNS = [(name, name.encode(), feature) for name, feature in sorted(FEATURES.items())]
WANTED = {name.encode(): feature for name, feature in FEATURES.items()}


def example(number, **others):
    features = {"box": np.arange(2.0 * number + 2), "grid": [0.5, 1.0, number / 3, -1.0], "image": b"jpeg" * number}
    features |= {"label": [number - 3], "pair": [-number, 2**number], "words": list(range(-1, 20 * number))}
    return encode_example({"other": b"text", **features, **others})


def together(messages):
    """Return the values of messages in one memory, with bytes between them."""
    parts, ends = [], []
    for message in messages:
        parts += [b"\xff", message]
        ends.append(sum(map(len, parts)))
    memory = np.frombuffer(b"".join(parts), np.uint8)
    views = [memory[end - len(message) : end] for end, message in zip(ends, messages, strict=True)]
    return read_examples(views, COLUMNS)


def alone(message):
    """Return the values of a message, or None if it is damaged."""
    pixels = np.frombuffer(message, np.uint8)
    try:
        located = locate_features(pixels.data, WANTED)
        return [decode_feature(feature, located.get(key), pixels.data, pixels) for _, key, feature in COLUMNS]
    except ValueError:
        return None


def assert_same(columns, expected):
    for column, values in zip(columns, zip(*expected, strict=True), strict=True):
        assert len(column) == len(values)
        for one, other in zip(column, values, strict=True):
            assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


@pytest.mark.parametrize("copied", [False, True])
def test_values_are_those_of_each_alone(copied):
    messages = [example(number) for number in range(12)]
    arrays = [np.frombuffer(message, np.uint8) for message in messages]
    found = read_examples(arrays, COLUMNS) if copied else together(messages)
    assert_same(found, map(alone, messages))


def test_large_messages_in_separate_memory_are_not_copied(monkeypatch):
    arrays = [np.frombuffer(example(number), np.uint8) for number in range(12)]
    monkeypatch.setattr(fast_examples, "_SMALL", 10)
    assert read_examples(arrays, COLUMNS) is None


def test_damaged_messages_are_as_alone():
    rng, good, read, refused = random.Random(2), example(1), 0, 0
    for number in range(MUTATIONS):
        message = mutated(example(number % 5), rng)
        found, expected = together([good, message, good]), alone(message)
        if expected is None:
            refused += 1
            assert found is None, message
        elif found is not None:
            read += 1
            assert_same(found, [alone(good), expected, alone(good)])
    assert min(read, refused) > MUTATIONS // 20


ENTRIES = st.builds(
    lambda name, kind, values: encode_bytes(
        1, encode_bytes(1, name.encode()) + encode_bytes(2, encode_bytes(kind, encode_bytes(1, values)))
    ),
    st.sampled_from([*FEATURES, "other", ""]),
    st.integers(1, 3),
    st.binary(max_size=20) | st.lists(st.integers(0, 2**64 - 1)).map(lambda n: b"".join(map(encode_varint, n))),
)


@given(st.lists(st.lists(ENTRIES, max_size=12).map(b"".join).map(lambda body: encode_bytes(1, body)), min_size=1))
def test_any_features_are_as_alone(messages):
    expected = [alone(message) for message in messages]
    found = together(messages)
    if found is not None:
        assert_same(found, expected)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        example(1)[:-1],
        example(1) + example(2),  # a message may have several parts
        encode_bytes(1, encode_bytes(1, encode_bytes(2, b"") + encode_bytes(1, b"label"))),  # the value comes first
        encode_bytes(1, encode_bytes(1, encode_bytes(1, b"label") + encode_bytes(2, b""))),
        encode_bytes(1, encode_bytes(1, encode_bytes(1, b"label") + encode_bytes(2, encode_bytes(3, b"")))),
        encode_bytes(
            1, encode_bytes(1, encode_bytes(1, b"label") + encode_bytes(2, encode_bytes(3, encode_int(1, 5))))
        ),
    ],
    ids=["empty", "cut short", "two parts", "value first", "no list", "no values", "not packed"],
)
def test_other_forms_are_left_to_the_parser_of_one_message(message):
    assert together([example(1), message]) is None


def test_the_uncompiled_loops_find_the_same():
    rng = random.Random(4)
    messages = [example(number % 4) for number in range(20)] + [mutated(example(1), rng) for _ in range(100)]
    data = np.frombuffer(b"".join(messages), np.uint8)
    stops = np.cumsum([len(message) for message in messages])
    keys = [key for _, key, _ in COLUMNS]
    names, ends = np.frombuffer(b"".join(keys), np.uint8), np.cumsum([len(key) for key in keys])
    found, usual = np.zeros((2, len(messages), len(keys), 3), np.int64), np.zeros((2, len(messages)), np.bool_)
    starts = np.append(0, stops[:-1])
    example_loop.scan_examples(data, starts, stops, names, ends, found[0], usual[0])
    example_loop.scan_examples.python_function(data, starts, stops, names, ends, found[1], usual[1])
    assert np.array_equal(*found)
    assert np.array_equal(*usual)
    places, values = np.ascontiguousarray(found[0, :, 4, 1:]), np.zeros((2, len(messages), 2), np.int64)
    example_loop.read_integers(data, places, values[0], usual[0])
    example_loop.read_integers.python_function(data, places, values[1], usual[1])
    assert np.array_equal(*values)
    assert np.array_equal(*usual)


@pytest.mark.parametrize("bad", [{}, {"label": [1, 2]}, {"label": [0.5]}, {"label": []}])
def test_batches_are_those_of_single_reads(tmp_path, bad, monkeypatch):
    write_tfrecord(tmp_path / "a", [example(n % 6, **(bad if n == 9 else {})) for n in range(30)])
    source = TFRecordSource((str(tmp_path / "a"),), (), tuple(sorted(FEATURES.items())))
    indices = np.arange(30)[::-1].copy()

    def read():
        out = [np.empty((30, *s.shape), s.dtype) if s.dense else None for s in source.specs]
        try:
            columns = source.read(indices, out)
        except SampleError as error:
            return str(error)
        assert all(slot is None or slot is column for slot, column in zip(out, columns, strict=True))
        return [[value.tolist() for value in column] for column in columns]

    many = read()
    monkeypatch.setattr(example_columns, "MIN_MESSAGES", 31)
    assert many == read()
    assert isinstance(many, str) == (bool(bad) and bad["label"] != [])
