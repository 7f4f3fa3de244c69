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
from penstock.sources.formats.caffe.caffe_source import CaffeSource, parse_datum, write_caffe
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
