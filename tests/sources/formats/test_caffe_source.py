"""Caffe's records, as the libraries of protobuf and LMDB write them; tests/dali/test_readers.py has DALI read some."""

import contextlib
import random

import lmdb
import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from mutations import MUTATIONS, mutated

from penstock import Pipeline, fn, ops
from penstock.errors import DefinitionError, SourceError
from penstock.sources.formats import joined_records
from penstock.sources.formats.caffe.caffe_source import CaffeSource, parse_datum, write_caffe
from penstock.sources.formats.caffe.fast_datums import parse_datums
from penstock.testing import check_bad_samples, check_source


@pytest.fixture(scope="module")
def datum():
    """Caffe's message, built by the protobuf library from its published field numbers."""
    file = descriptor_pb2.FileDescriptorProto(name="caffe.proto", package="caffe", syntax="proto2")
    message, kinds = file.message_type.add(name="Datum"), descriptor_pb2.FieldDescriptorProto
    for name, number, kind in [
        ("channels", 1, kinds.TYPE_INT32), ("height", 2, kinds.TYPE_INT32), ("width", 3, kinds.TYPE_INT32),
        ("data", 4, kinds.TYPE_BYTES), ("label", 5, kinds.TYPE_INT32), ("float_data", 6, kinds.TYPE_FLOAT),
        ("encoded", 7, kinds.TYPE_BOOL),
    ]:  # fmt: skip
        label = kinds.LABEL_REPEATED if name == "float_data" else kinds.LABEL_OPTIONAL
        message.field.add(name=name, number=number, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("caffe.Datum"))


def database(path, *records):
    environment = lmdb.open(str(path))
    with environment.begin(write=True) as transaction:
        for number, record in enumerate(records):
            transaction.put(b"%08d" % number, record)
    environment.close()
    return path


def source(*paths, image=True, label=True):
    return CaffeSource(tuple(map(str, paths)), image, label)


RAW = {"channels": 3, "height": 2, "width": 1, "data": bytes(range(6)), "label": 7, "encoded": False}


def test_encoded_images(datum, tmp_path):
    one = datum(data=b"jpeg", label=-3, encoded=True, height=9, width=9, channels=3).SerializeToString()
    two = datum(data=b"", label=2**31 - 1).SerializeToString()
    write_caffe(tmp_path / "ours", [(b"first", 7), (b"second", 300)])
    found = source(database(tmp_path / "theirs", one, two), tmp_path / "ours")
    check_source(found)
    images, labels = found.read(np.array([0, 3, 1]), [None, None])
    assert [bytes(image) for image in images] == [b"jpeg", b"second", b""]
    assert labels.tolist() == [[-3], [300], [2**31 - 1]]
    assert found.describe(3).endswith("ours at key 00000001")
    assert found.reads_same_samples(source(tmp_path / "theirs", tmp_path / "ours"))
    assert not found.reads_same_samples(source(tmp_path / "theirs", tmp_path / "ours", label=False))


def test_pixels(datum, tmp_path):
    path = database(
        tmp_path, datum(**RAW).SerializeToString(), datum(**{**RAW, "height": 1, "data": b"abc"}).SerializeToString()
    )
    found = source(path)
    check_source(found)
    assert found.specs[0].layout == ""  # as in DALI
    assert [image.tolist() for image in found.read(np.arange(2), [None, None])[0]] == [
        [[[0, 1, 2]], [[3, 4, 5]]],
        [[[97, 98, 99]]],
    ]


def test_a_bad_record_is_named(datum, tmp_path):
    good = datum(data=b"jpeg", label=1, encoded=True)
    bad = [
        datum(**RAW).SerializeToString(),  # of another kind than the first
        datum(data=b"jpeg").SerializeToString(),
        datum(label=1, float_data=[1.0]).SerializeToString(),
        b"this is no protobuf",
        b"\x22\x7f",
        b"\x28",
        b"\x2a\x01a",
        b"\x20\x01",
    ]
    path = database(tmp_path / "a", good.SerializeToString(), *bad, good.SerializeToString())
    check_bad_samples(source(path), range(1, 9))
    for fields, message in (
        ({**RAW, "data": b"ab"}, r"2 bytes of pixels do not match height, width, channels = \[2, 1, 3\]"),
        ({**RAW, "height": -1}, "6 bytes of pixels"),
        ({"data": b"jpeg"}, "label_available=False reads such records"),
    ):
        path = database(
            tmp_path / "-".join(map(str, fields.values())).replace("\\", ""), datum(**fields).SerializeToString()
        )
        with pytest.raises(SourceError, match=message):
            source(path)
    check_source(source(path, label=False))


def test_mutated_records_are_value_errors_or_read(datum):
    rng, records = random.Random(3), [datum(**RAW), datum(data=b"jpeg" * 40, label=300, encoded=True)]
    good = [each.SerializeToString() for each in records]
    for number in range(MUTATIONS):
        changed = mutated(good[number % 2], rng)
        with contextlib.suppress(ValueError, DecodeError):  # the library is stricter, as on unknown fields
            found = parse_datum(changed)
            found.image()
            theirs = datum.FromString(changed)
            assert (found.label or 0, bytes(found.data)) == (theirs.label, theirs.data)


@pytest.mark.parametrize("pixels", [True, False])
def test_both_parsers_agree_on_mutated_records(datum, pixels):
    rng, parsed = random.Random(5), 0
    fields = RAW if pixels else {"data": b"jpeg" * 40, "label": -300, "encoded": True}
    good = datum(**fields).SerializeToString()
    for _ in range(MUTATIONS):
        record = mutated(good, rng)
        fast = parse_datums([record], pixels=pixels, labeled=False)
        try:
            slow = parse_datum(record)
            image = slow.image()
        except ValueError:
            assert fast is None, record
            continue
        if fast is not None:
            parsed += 1
            assert (slow.shape is not None) == pixels, record
            assert fast[0][0].tolist() == image.tolist(), record
            assert fast[1].tolist() == [[slow.label or 0]], record
            assert (parse_datums([record], pixels=None, labeled=True) is None) == (slow.label is None), record
    assert parsed > MUTATIONS // 50


@pytest.mark.parametrize("together", [True, False])
def test_a_batch_is_parsed_in_one_call(datum, together, monkeypatch):
    if not together:
        monkeypatch.setattr(joined_records, "_SMALL", 0)
    sizes = [(2, 3, 1), (1, 1, 4), (5, 2, 3)]
    images = [np.arange(np.prod(size), dtype=np.uint8).reshape(size) for size in sizes]
    records = [
        datum(
            **dict(zip(("height", "width", "channels"), size, strict=True)),
            data=image.tobytes(),
            label=n - 1,
            encoded=False,
        )
        for n, (size, image) in enumerate(zip(sizes, images, strict=True))
    ]
    records = [record.SerializeToString() for record in records]
    parsed = parse_datums(records, pixels=True, labeled=True)
    assert parsed is not None
    assert [image.tolist() for image in parsed[0]] == [image.tolist() for image in images]
    assert parsed[1].tolist() == [[-1], [0], [1]]
    assert parse_datums(records, pixels=False, labeled=True) is None
    assert parse_datums([*records, datum(data=b"a", label=1).SerializeToString()], pixels=True, labeled=True) is None
    wrong = datum(**{**RAW, "height": 2**31 - 1, "width": 2**31 - 1, "channels": 4}).SerializeToString()
    assert parse_datums([*records, wrong], pixels=True, labeled=True) is None


def test_records_are_not_read_one_by_one(datum, tmp_path, monkeypatch):
    path = database(tmp_path, *[datum(**{**RAW, "label": n}).SerializeToString() for n in range(4)])
    for image, label in ((True, True), (False, True), (True, False)):
        found = source(path, image=image, label=label)
        with monkeypatch.context() as patch:
            patch.setattr(CaffeSource, "_values", None)
            fast = found.read(np.arange(4), [None] * len(found.specs))
        slow = super(CaffeSource, found).read(np.arange(4), [None] * len(found.specs))
        assert [list(map(np.ndarray.tolist, column)) for column in fast] == [
            list(map(np.ndarray.tolist, column)) for column in slow
        ]


def test_definitions(tmp_path):
    write_caffe(tmp_path, [(b"one", 1), (b"two", 2)])
    for options, message in (
        ({"path": []}, "path is empty"),
        ({"path": tmp_path, "image_available": False, "label_available": False}, "nothing to read"),
    ):
        with Pipeline(batch_size=1), pytest.raises(DefinitionError, match=message):
            fn.readers.caffe(**options)
    with Pipeline(batch_size=2) as pipeline:
        images = fn.readers.caffe(path=tmp_path, label_available=False)
        _, labels = ops.CaffeReader(path=str(tmp_path))()
        pipeline.set_outputs(images, labels)
    images, labels = pipeline.run()
    assert bytes(images[1]) == b"two"
    assert labels.as_array().tolist() == [[1], [2]]
