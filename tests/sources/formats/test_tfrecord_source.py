"""TFRecord files, against an independent writer; what is damaged is named."""

import importlib
import random

import crc32c as independent
import google_crc32c
import numpy as np
import pytest
import tfrecord as writer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st
from mutations import MUTATIONS, mutated
from tfrecord.tools import tfrecord2idx

from penstock import Pipeline, fn
from penstock.errors import ArgumentTypeError, DefinitionError, PenstockError, SampleError, SourceError
from penstock.sources.formats.protobuf_wire import encode_varint, packed
from penstock.sources.formats.tfrecord.example_message import decode_feature, encode_example, locate_features, unpack
from penstock.sources.formats.tfrecord.feature_specs import FixedLenFeature, VarLenFeature, float32, int64, string
from penstock.sources.formats.tfrecord.tfrecord_source import TFRecordSource, masked_crc32c, write_tfrecord
from penstock.sources.storage.random_access_file import LocalFile
from penstock.testing import check_source

FEATURES = {
    "box": VarLenFeature([4], float32, 0.0),
    "image": FixedLenFeature((), string, ""),
    "label": FixedLenFeature([1], int64, -1),
    "words": VarLenFeature(int64, 0),
}


def source(*paths, indexes=(), features=FEATURES):
    return TFRecordSource(tuple(map(str, paths)), tuple(map(str, indexes)), tuple(sorted(features.items())))


def write(path, count=5, first=0):
    file = writer.TFRecordWriter(str(path))
    for number in range(first, first + count):
        example = {"image": (b"jpeg" * number, "byte"), "label": (number - 2, "int")}
        if number % 3:
            example["box"] = (list(np.arange(4.0 * number)), "float")
            example["words"] = (list(range(-1, 50 * number)), "int")
        file.write(example)
    file.close()
    return path


@pytest.mark.parametrize("implementation", ["c", "python"])
@given(st.binary(max_size=300))
def test_checksums(implementation, data):
    """google-crc32c falls back to pure Python where its extension does not load."""
    value = google_crc32c.value if implementation == "c" else importlib.import_module("google_crc32c.python").value
    plain = independent.crc32c(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(google_crc32c, "value", value)
        for form in (data, np.frombuffer(b"." + data, np.uint8)[1:]):
            assert masked_crc32c(form) == ((plain >> 15 | plain << 17) + 0xA282EAD8) % 2**32


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300), min_size=1, max_size=40))
def test_many_integers_are_unpacked_as_few_are(numbers):
    data = b"".join(encode_varint(number & (1 << 64) - 1) for number in numbers)
    assert unpack(np.frombuffer(data, np.uint8)).tolist() == packed(data, 0, len(data), 64) == numbers


def test_files_of_an_independent_writer(tmp_path):
    paths = [write(tmp_path / "a", 4), write(tmp_path / "b", 3, first=4)]
    found = source(*paths)
    check_source(found)
    boxes, images, labels, words = found.read(np.array([5, 0, 6]), [None] * 4)
    assert [bytes(image) for image in images] == [b"jpeg" * 5, b"", b"jpeg" * 6]
    assert labels.tolist() == [[3], [-2], [4]]
    assert boxes[0].tolist() == np.arange(20.0).reshape(5, 4).tolist()
    assert [each.shape for each in boxes] == [(5, 4), (0, 4), (0, 4)]
    assert [len(each) for each in words] == [251, 0, 0]
    assert words[0].tolist() == list(range(-1, 250))
    assert found.describe(4) == f"{paths[1]} at byte 0"
    indexes = [tmp_path / "a.idx", tmp_path / "b.idx"]
    for path, index in zip(paths, indexes, strict=True):
        tfrecord2idx.create_index(str(path), str(index))
    indexed = source(*paths, indexes=indexes)
    check_source(indexed)
    assert indexed.reads_same_samples(found)
    assert indexed.fingerprint() == found.fingerprint()
    assert not indexed.reads_same_samples(source(*paths, features={"label": FEATURES["label"]}))


def test_our_files_are_read_by_an_independent_reader(tmp_path):
    write_tfrecord(tmp_path / "a", [encode_example({"x": [1.5, 2.0], "y": [-3, 2**40], "z": b"text"})])
    (read,) = writer.tfrecord_loader(str(tmp_path / "a"), None, {"x": "float", "y": "int", "z": "byte"})
    assert (read["x"].tolist(), read["y"].tolist(), bytes(read["z"])) == ([1.5, 2.0], [-3, 2**40], b"text")


def test_defaults(tmp_path):
    write_tfrecord(
        tmp_path / "a", [encode_example({"x": [1]}), encode_example({}), encode_example({"x": [], "list": []})]
    )
    features = {
        "x": FixedLenFeature([1], int64, -5),
        "y": FixedLenFeature((), float32, 2),
        "grid": FixedLenFeature([2, 2], float32, [0.5, 1.0]),
        "name": FixedLenFeature([], string, "none"),
        "list": VarLenFeature(int64, 4),
    }
    found = source(tmp_path / "a", features=features)
    check_source(found)
    grids, lists, names, numbers, scalars = found.read(np.arange(3), [None] * 5)
    assert scalars.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(DefinitionError, match="extents are at least 1"):
        VarLenFeature([-1], float32, 0.0)
    assert numbers.tolist() == [[1], [-5], [-5]]
    assert grids[0].tolist() == [[0.5, 1.0]] * 2
    assert bytes(names[1]) == b"none"
    assert lists[1].shape == (0,)
    with pytest.raises(DefinitionError, match="default value"):
        source(tmp_path / "a", features={"x": FixedLenFeature([1], int64, "one")})
    with pytest.raises(SourceError, match="feature 'q': it is missing"):
        source(tmp_path / "a", features={"q": FixedLenFeature([1], int64, None)})


def test_a_feature_of_varying_length_is_a_scalar_only_if_no_record_names_it(tmp_path):
    features = {"x": VarLenFeature([2], int64, None), "y": VarLenFeature(float32, [1.0]), "z": VarLenFeature(int64, 3)}
    last = encode_example({"x": [1, 2]})
    write_tfrecord(tmp_path / "a", [encode_example({"q": [1]})] * 999 + [last])
    found = source(tmp_path / "a", features=features)
    check_source(found)
    assert [str(spec) for spec in found.specs] == ["int64[?, 2]", "float32[]", "int64[]"]
    x, y, z = found.read(np.array([0, 999]), [None] * 3)
    assert [part.shape for part in x] == [(0, 2), (1, 2)]
    assert (y.tolist(), z.tolist()) == ([0.0, 0.0], [3, 3])

    data = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(data[: -len(last)] + bytes(len(last)))  # the one that names it is damaged
    found = source(tmp_path / "a", features=features)
    assert [str(spec) for spec in found.specs] == ["int64[]", "float32[]", "int64[]"]
    with pytest.raises(SampleError, match="sample 999"):
        found.read(np.array([999]), [None] * 3)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"label": [1, 2]}, r"feature 'label': it has 2 values, and the shape \[1\] is asked for"),
        ({"label": [0.5]}, "feature 'label': it has the type float32, and int64 is asked for"),
        ({"box": [0.5] * 6}, r"feature 'box': it has 6 values, and rows of \[4\]"),
        (b"\xff" * 40, "cannot be read as an Example"),
    ],
)
def test_a_bad_example_is_named(tmp_path, bad, message):
    path = tmp_path / "a"
    example = bad if isinstance(bad, bytes) else encode_example(bad)
    write_tfrecord(path, [encode_example({"label": [1]}), example])
    found = source(path)
    with pytest.raises(SampleError, match=message) as caught:
        found.read(np.array([0, 1]), [None] * 4)
    assert (caught.value.index, caught.value.path) == (1, str(path))


def test_records_that_follow_each_other_are_read_at_once(tmp_path, monkeypatch):
    found = source(write(tmp_path / "a"))
    expected, ranges, asked = found.read(np.arange(3), [None] * 4), LocalFile.read_ranges, []
    monkeypatch.setattr(LocalFile, "read_ranges", lambda *args: asked.extend(args[1].tolist()) or ranges(*args))
    for order, reads in (([0, 1, 2], 1), ([2, 0, 1], 2), ([2, 1, 0], 3), ([0, 2, 0], 3)):
        asked.clear()
        assert found.read(np.array(order), [None] * 4)[2].tolist() == expected[2][order].tolist()
        assert (len(asked), asked) == (reads, sorted(asked))


def test_the_record_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    found = source(write(tmp_path / "a"))
    expected, bad, fill = found.read(np.arange(3), [None] * 4), int(found.records.starts[3]), LocalFile.fill

    def failing(file, view, at):
        if at <= bad < at + len(view):
            raise OSError(5, "Input/output error")
        fill(file, view, at)

    monkeypatch.setattr(LocalFile, "read_ranges", lambda *_: False)
    monkeypatch.setattr(LocalFile, "fill", failing)
    for order in ([0, 1, 2], [2, 0, 1], [0, 2, 0]):
        assert found.read(np.array(order), [None] * 4)[2].tolist() == expected[2][order].tolist()
    with pytest.raises(SampleError, match=r"sample 3 .* cannot be read: Input/output error"):
        found.read(np.arange(5), [None] * 4)


def test_damaged_files(tmp_path):
    path = write(tmp_path / "a")
    data = path.read_bytes()
    found = source(path)
    for content, message in (
        (data[:-3], "cut short: its last record begins at byte"),
        (data[:5], "cut short"),
        (b"", "have no records"),
        (b"\x1f\x8b" + data, "compressed with gzip"),
        (b"text " * 99, "no record begins at byte 0"),
        (data[:9] + b"\0\0" + data[11:], "wrong checksum"),
    ):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(SourceError, match=message):
            source(tmp_path / "bad")
    at = int(found.records.starts[3])
    path.write_bytes(data[: at + 14] + b"\0" + data[at + 15 :])
    with pytest.raises(SampleError, match="written to since"):
        found.read(np.array([0]), [None] * 4)
    with pytest.raises(SampleError, match=r"sample 3 .* at byte .* a checksum is wrong") as caught:
        source(path).read(np.arange(5), [None] * 4)
    assert (caught.value.index, caught.value.path) == (3, str(path))
    with pytest.raises(SourceError, match="there is no file"):
        source(tmp_path / "none")


def test_an_index_of_another_file(tmp_path):
    path, other, index = write(tmp_path / "a", 3), write(tmp_path / "b", 9, first=2), tmp_path / "index"
    for content, message in (
        ("0 17\n", "differs from the index"),
        ("5 40\n", "differs from the index"),
        ("x 40\n", "is not an index"),
        ("5\n", "is not an index"),
        ("0 99999\n", "belongs to another file"),
        ("0 -40\n", "belongs to another file"),
        ("", "have no records"),
    ):
        index.write_text(content)
        with pytest.raises(SourceError, match=message):
            source(path, indexes=[index])
    tfrecord2idx.create_index(str(other), str(index))
    with pytest.raises(SourceError):
        source(path, indexes=[index])
    with pytest.raises(SourceError, match=r"index .* does not exist"):
        source(path, indexes=[tmp_path / "none"])


def test_mutated_files_are_errors(tmp_path):
    rng, path = random.Random(5), tmp_path / "a"
    data = write(path).read_bytes()
    for _ in range(MUTATIONS // 3):
        changed = mutated(data, rng)
        path.write_bytes(changed)
        try:
            found = source(path)
            found.read(np.arange(len(found)), [None] * 4)
        except PenstockError:
            continue
        assert changed == data or data.startswith(changed) or len(found) != 5 or changed[: len(data)] == data


@pytest.fixture(scope="module")
def messages():
    """The messages of Example, built by the protobuf library from their published field numbers."""
    file = descriptor_pb2.FileDescriptorProto(name="feature.proto", package="ex", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, kind in (("B", kinds.TYPE_BYTES), ("F", kinds.TYPE_FLOAT), ("I", kinds.TYPE_INT64)):
        file.message_type.add(name=name).field.add(name="value", number=1, type=kind, label=kinds.LABEL_REPEATED)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate("BFI", start=1):
        feature.field.add(
            name=name.lower(), number=number, type=kinds.TYPE_MESSAGE, type_name=f".ex.{name}", oneof_index=0,
            label=kinds.LABEL_OPTIONAL,
        )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ex.Feature"))


def test_mutated_features_are_what_the_protobuf_library_reads(messages):
    from penstock.sources.formats.protobuf_wire import encode_bytes

    rng = random.Random(9)
    good = messages()
    good.i.value.extend([1, 300, -5, 2**50])
    read = 0
    for _ in range(MUTATIONS // 3):
        changed = mutated(good.SerializeToString(), rng)
        entry = encode_bytes(1, b"x") + encode_bytes(2, changed)
        data = memoryview(encode_bytes(1, encode_bytes(1, entry)))
        try:
            found = locate_features(data, {b"x": VarLenFeature(int64, 0)}).get(b"x")
            ours = decode_feature(VarLenFeature(int64, 0), found, data, np.asarray(data)).tolist()
        except ValueError:
            continue
        try:
            theirs = messages.FromString(changed)
        except Exception:  # noqa: BLE001  # stricter than we are, as on unknown fields
            continue
        assert theirs.WhichOneof("kind") in ("i", None)
        assert ours == list(theirs.i.value), changed
        read += 1
    assert read > MUTATIONS // 50


def test_a_definition_says_which_features(tmp_path):
    path = write(tmp_path / "a")
    many = {"features": FEATURES, "path": [path, path]}
    for options, error, message in (
        ({"features": {}}, DefinitionError, "features is empty"),
        ({"features": ["label"]}, ArgumentTypeError, "dictionary"),
        ({"features": {"x": FixedLenFeature([2], string, "")}}, DefinitionError, "must not be a list of strings"),
        ({"features": {"x": VarLenFeature(string, "")}}, DefinitionError, "must not be a list of strings"),
        ({**many, "index_path": [path]}, DefinitionError, "one entry per file"),
        ({"features": FEATURES, "path": []}, DefinitionError, "path is empty"),
    ):
        with Pipeline(batch_size=1), pytest.raises(error, match=message):
            fn.readers.tfrecord(**{"path": path, **options})
    with Pipeline(batch_size=10) as pipeline:
        read = fn.readers.tfrecord(path=[path, path], features=dict(reversed(FEATURES.items())))
        assert list(read) == ["words", "label", "image", "box"]
        pipeline.set_outputs(read["label"])
    assert pipeline.run()[0].as_array().ravel().tolist() == [-2, -1, 0, 1, 2] * 2


def test_lengths_are_read_without_the_data_of_large_records(tmp_path):
    big = encode_example({"image": bytes(200_000)})
    write_tfrecord(tmp_path / "a", [big, encode_example({}), big, big])
    found = source(tmp_path / "a", features={"image": FEATURES["image"]})
    assert found.records.sizes.tolist() == [len(big) + 16, 2 + 16, len(big) + 16, len(big) + 16]
    assert (tmp_path / "a").stat().st_size == found.records.sizes.sum()


def test_files_by_folder_glob_and_pattern(tmp_path):
    for number in range(3):
        write_tfrecord(tmp_path / f"s-{number}.tfrecord", [encode_example({"n": [number]})])
        tfrecord2idx.create_index(str(tmp_path / f"s-{number}.tfrecord"), str(tmp_path / f"s-{number}.idx"))

    def read(path, **options):
        with Pipeline(batch_size=3) as pipeline:
            features = {"n": FixedLenFeature((), int64, -1)}
            pipeline.set_outputs(fn.readers.tfrecord(path=path, features=features, **options)["n"])
        return pipeline.run()[0].as_array().tolist()

    assert read(tmp_path) == read(f"{tmp_path}/s-*.tfrecord") == read(f"{tmp_path}/s-{{0..2}}.tfrecord") == [0, 1, 2]
    assert read(tmp_path, index_path=tmp_path) == [0, 1, 2]
    write_tfrecord(tmp_path / "s-1.more.tfrecord", [encode_example({"n": [1000]})])
    tfrecord2idx.create_index(str(tmp_path / "s-1.more.tfrecord"), str(tmp_path / "s-1.more.idx"))
    assert read(f"{tmp_path}/s-1*.tfrecord", index_path=f"{tmp_path}/s-1*.idx")[:2] == [1000, 1]
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"has no files that end in \.tfrecord"):
        read(tmp_path / "empty")
