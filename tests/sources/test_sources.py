"""Every source passes the contract suite, and says what is wrong with data that cannot be read."""

import contextlib
import gzip
import importlib
import inspect
import pkgutil

import lmdb
import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

import penstock.sources
from penstock.errors import DefinitionError, SampleError, SourceError, SourceNotFoundError
from penstock.sources.files.class_folders import list_class_folders
from penstock.sources.files.file_lists import files_from_labeled_list, files_from_name_list, files_from_paths
from penstock.sources.formats.array_source import ArraySource
from penstock.sources.formats.caffe.caffe2_source import Caffe2Source, write_caffe2
from penstock.sources.formats.caffe.fast_tensor_protos import parse_common
from penstock.sources.formats.caffe.tensor_protos import parse_tensor_protos
from penstock.sources.formats.cifar10_files import open_cifar10
from penstock.sources.formats.idx_files import read_idx
from penstock.sources.open_sources import open_shared
from penstock.sources.source import Source
from penstock.testing import ListSource, check_source
from penstock.types import LabelType

JPG = ("*.jpg",)


def caffe2(*paths, label_type=LabelType.SINGLE_LABEL, num_labels=1, additional=0, bbox=False, image=True):
    return Caffe2Source(tuple(map(str, paths)), label_type, num_labels, additional, bbox, image)


@pytest.fixture(scope="module")
def tensor_protos():
    """Caffe2's messages, built by the protobuf library from their published field numbers."""
    file = descriptor_pb2.FileDescriptorProto(name="caffe2.proto", package="c2", syntax="proto2")
    tensor = file.message_type.add(name="TensorProto")
    many, one = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED, descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, number, kind, label, packed in [
        ("dims", 1, kinds.TYPE_INT64, many, False),
        ("data_type", 2, kinds.TYPE_INT32, one, None),
        ("float_data", 3, kinds.TYPE_FLOAT, many, True),
        ("int32_data", 4, kinds.TYPE_INT32, many, True),
        ("byte_data", 5, kinds.TYPE_BYTES, one, None),
        ("string_data", 6, kinds.TYPE_BYTES, many, None),
        ("int64_data", 10, kinds.TYPE_INT64, many, True),
        ("unpacked", 14, kinds.TYPE_INT32, many, False),
    ]:
        field = tensor.field.add(name=name, number=number, type=kind, label=label)
        if packed is not None:
            field.options.packed = packed
    protos = file.message_type.add(name="TensorProtos")
    protos.field.add(name="protos", number=1, type=kinds.TYPE_MESSAGE, label=many, type_name=".c2.TensorProto")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("c2.TensorProtos"))


def record(messages, *tensors):
    message = messages()
    for tensor in tensors:
        message.protos.add(**tensor)
    return message.SerializeToString()


@given(
    image=st.binary(max_size=400),
    label=st.integers(-(2**31), 2**31 - 1),
    dims=st.lists(st.integers(0, 2**40), max_size=3),
    more=st.lists(st.floats(width=32, allow_nan=False), max_size=5),
    wide=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
)
def test_records_are_read_as_the_protobuf_library_writes_them(tensor_protos, image, label, dims, more, wide):
    data = record(
        tensor_protos,
        {"dims": dims, "data_type": 4, "string_data": [image]},
        {"dims": [1], "data_type": 2, "int32_data": [label]},
        {"data_type": 1, "float_data": more},
        {"data_type": 10, "int64_data": wide},
    )
    first, second, third, fourth = parse_tensor_protos(data)
    assert (first.dims, first.data_type, first.values) == (tuple(dims), 4, [image])
    assert second.numbers().tolist() == [label]
    assert third.numbers().tolist() == more
    assert fourth.numbers().tolist() == wide


@given(
    image=st.binary(max_size=40_000), label=st.integers(-3, 2**31 - 1), dims=st.lists(st.integers(1, 300), max_size=2)
)
def test_the_shortcut_equals_the_parser(tensor_protos, image, label, dims):
    data = record(
        tensor_protos,
        {"dims": dims, "data_type": 4, "string_data": [image]},
        {"dims": [1], "data_type": 2, "int32_data": [label]},
    )
    common = parse_common([data])
    tensors = parse_tensor_protos(data)
    if common is not None:
        assert (bytes(common[0][0]), common[1][0, 0]) == (tensors[0].values[0], tensors[1].values[0])
    assert common is not None or not image or label < 0 or len(dims) > 1


@given(st.binary(max_size=60))
def test_the_shortcut_never_reads_what_the_parser_refuses(data):
    common = parse_common([data])
    if common is not None:
        image, label = parse_tensor_protos(data)
        assert (bytes(common[0][0]), common[1][0, 0]) == (image.values[0], label.values[0])


@given(data=st.data())
def test_damaged_records_raise_value_errors_and_nothing_else(tensor_protos, data):
    good = record(
        tensor_protos,
        {"dims": [1], "data_type": 4, "string_data": [b"x" * 50]},
        {"dims": [1], "data_type": 2, "int32_data": [5]},
    )
    bad = bytearray(good)
    for place in data.draw(st.lists(st.integers(0, len(good) - 1), max_size=4)):
        bad[place] = data.draw(st.integers(0, 255))
    cut = bytes(bad[: data.draw(st.integers(0, len(bad)))])
    with contextlib.suppress(ValueError):
        parse_tensor_protos(cut)


def test_arrays(digits):
    images, labels = digits
    check_source(ArraySource([images, labels], ["HW", ""]))
    check_source(ArraySource([np.asfortranarray(images), labels[::-1]], ["HW", ""]))


def test_arrays_in_the_other_byte_order(tmp_path):
    pixels = np.random.default_rng(1).normal(size=(9, 2, 3)).astype(np.complex64)
    for native in (pixels.real, pixels, np.arange(9, dtype=np.int16), np.arange(9.0)):
        swapped = native.astype(native.dtype.newbyteorder("S"))
        np.save(tmp_path / "swapped.npy", swapped)
        for array in (swapped, np.asfortranarray(swapped), np.load(tmp_path / "swapped.npy", mmap_mode="r")):
            source, before = ArraySource([array, np.arange(9)], ["", ""]), array.tobytes()
            check_source(source)
            read = source.read(np.arange(9)[::-1], [None, None])[0]
            assert read.dtype.isnative
            assert read.tobytes() == native[::-1].tobytes()
            assert array.tobytes() == before
        assert not ArraySource([swapped], [""]).reads_same_samples(ArraySource([native], [""]))


def test_ragged_lists():
    check_source(ListSource([[np.zeros((n, 2), np.uint8) for n in range(1, 9)], [np.int32(n) for n in range(8)]]))


def test_caffe2(digits_lmdb):
    source = caffe2(digits_lmdb)
    check_source(source)
    assert source.describe(3).endswith("at key 00000003")


def test_caffe2_of_several_databases(digits, digits_lmdb, tmp_path):
    write_caffe2(tmp_path / "more", [(b"first", 7), (b"second", 300)])
    source = caffe2(digits_lmdb, tmp_path / "more")
    check_source(source)
    assert len(source) == 63
    data, labels = source.read(np.array([62, 0, 61]), [None, None])
    assert bytes(data[0]) == b"second"
    assert labels.ravel().tolist() == [300, 0, 7]
    assert source.describe(61).endswith("more at key 00000000")


@pytest.mark.parametrize(
    ("options", "tensors", "expected"),
    [
        ({"label_type": LabelType.NO_LABEL}, [], []),
        ({"label_type": LabelType.MULTI_LABEL_DENSE}, [{"data_type": 2, "int32_data": [3, 1, 2]}], [[3, 1, 2]]),
        ({"label_type": LabelType.SINGLE_LABEL}, [{"data_type": 1, "float_data": [0.5]}], [[0.5]]),
        ({"label_type": LabelType.SINGLE_LABEL}, [{"data_type": 2, "unpacked": [], "int32_data": [9]}], [[9]]),
        (
            {"label_type": LabelType.MULTI_LABEL_SPARSE, "num_labels": 4},
            [{"data_type": 2, "int32_data": [3, 0]}],
            [[1, 0, 0, 1]],
        ),
        (
            {"label_type": LabelType.MULTI_LABEL_WEIGHTED_SPARSE, "num_labels": 3},
            [{"data_type": 2, "int32_data": [2, 0]}, {"data_type": 1, "float_data": [0.25, 4]}],
            [[4, 0, 0.25]],
        ),
        (
            {"additional": 1, "bbox": True},
            [
                {"data_type": 2, "int32_data": [1]},
                {"data_type": 1, "float_data": [7.5]},
                {"data_type": 2, "int32_data": [1, 2, 3, 4]},
            ],
            [[1], [7.5], [1, 2, 3, 4]],
        ),
    ],
)
def test_kinds_of_labels(tensor_protos, tmp_path, options, tensors, expected):
    image = {"dims": [1], "data_type": 4, "string_data": [b"jpeg"]}
    environment = lmdb.open(str(tmp_path))
    with environment.begin(write=True) as transaction:
        transaction.put(b"a", record(tensor_protos, image, *tensors))
        transaction.put(b"b", record(tensor_protos, image, *tensors))
    environment.close()
    source = caffe2(tmp_path, **options)
    check_source(source)
    values = source.read(np.array([0]), [None] * len(source.specs))
    assert bytes(values[0][0]) == b"jpeg"
    assert [column[0].tolist() for column in values[1:]] == expected


def test_raw_pixels(tensor_protos, tmp_path):
    pixels = np.arange(12, dtype=np.uint8)
    raw = {"dims": [3, 4], "data_type": 3, "byte_data": pixels.tobytes()}
    environment = lmdb.open(str(tmp_path))
    with environment.begin(write=True) as transaction:
        transaction.put(b"a", record(tensor_protos, raw, {"data_type": 2, "int32_data": [1]}))
    environment.close()
    source = caffe2(tmp_path)
    assert source.specs[0].layout == "HWC"
    assert np.array_equal(source.read(np.array([0]), [None, None])[0][0], pixels.reshape(3, 4, 1))


def test_one_database_is_opened_once(digits_lmdb):
    first = open_shared(Caffe2Source, (str(digits_lmdb),), LabelType.SINGLE_LABEL, 1, 0, False, True)
    again = open_shared(Caffe2Source, (str(digits_lmdb),), LabelType.SINGLE_LABEL, 1, 0, False, True)
    other = open_shared(Caffe2Source, (str(digits_lmdb),), LabelType.NO_LABEL, 1, 0, False, True)
    assert first is again
    assert other.records._parts[0] is first.records._parts[0]
    del first, again, other
    lmdb.open(str(digits_lmdb), readonly=True, lock=False).close()  # LMDB would refuse a second time


def refused(function, error):
    with pytest.raises(error) as caught:
        function()
    return str(caught.value)


def test_what_is_no_lmdb(tmp_path, digits_lmdb):
    assert "no LMDB at" in refused(lambda: caffe2(tmp_path / "none"), SourceNotFoundError)
    assert "no LMDB at" in refused(lambda: caffe2(tmp_path), SourceNotFoundError)
    data = (digits_lmdb / "data.mdb").read_bytes()
    for name, content in {"text": b"hello " * 5000, "empty": b"", "short": data[: len(data) // 2]}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.mdb").write_bytes(content)
        message = refused(lambda name=name: caffe2(tmp_path / name), SourceError)
        assert name in message
    lmdb.open(str(tmp_path / "hollow")).close()
    assert "holds no records" in refused(lambda: caffe2(tmp_path / "hollow"), SourceError)


def test_records_that_are_none(tensor_protos, tmp_path):
    image = {"dims": [1], "data_type": 4, "string_data": [b"jpeg"]}
    good = record(tensor_protos, image, {"data_type": 2, "int32_data": [1]})
    bad = {
        "text": b"this is no protobuf",
        "no label": record(tensor_protos, image),
        "two labels": record(tensor_protos, image, {"data_type": 2, "int32_data": [1, 2]}),
        "nothing": b"",
        "no image": record(tensor_protos, {"data_type": 2, "int32_data": [1]}, {"data_type": 2, "int32_data": [1]}),
    }
    for name, content in bad.items():
        path = tmp_path / name
        environment = lmdb.open(str(path))
        with environment.begin(write=True) as transaction:
            transaction.put(b"key-1", good)
            transaction.put(b"key-2", content)
        environment.close()
        source = caffe2(path)
        message = refused(lambda source=source: source.read(np.array([0, 1]), [None, None]), SampleError)
        assert "sample 1" in message
        assert "key-2" in message
        assert str(path) in message


def tree(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return root


@pytest.mark.filterwarnings("ignore:.*class folder:penstock.errors.PenstockWarning")
def test_class_folders(tmp_path):
    tree(
        tmp_path,
        "b/1.jpg",
        "B/2.JPG",
        "10/x.jpg",
        "2/y.jpg",
        "2/a.png",
        "2/.hidden.jpg",
        ".dot/z.jpg",
        "root.jpg",
        "2/deep/q.jpg",
    )
    (tmp_path / "empty").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "b")
    source = list_class_folders(str(tmp_path), JPG, (), False)
    check_source(source)
    data, labels = source.read(np.arange(len(source)), [None, None])
    found = {bytes(sample).decode(): int(label[0]) for sample, label in zip(data, labels, strict=True)}
    # folders in the order of their bytes: .dot 10 2 B b empty linked
    assert found == {".dot/z.jpg": 0, "10/x.jpg": 1, "2/.hidden.jpg": 2, "2/y.jpg": 2, "B/2.JPG": 3, "b/1.jpg": 6}
    assert source.describe(0) == str(tmp_path / ".dot/z.jpg")
    assert len(source) == 7
    filtered = list_class_folders(str(tmp_path), ("*.jpg", "*.png"), ("2", "b"), True)
    assert filtered.read(np.arange(len(filtered)), [None, None])[1].ravel().tolist() == [0, 0, 0, 1]


def test_lists_of_files(tmp_path):
    tree(tmp_path, "with space/a b.jpg", "c.jpg")
    (tmp_path / "list.txt").write_text("with space/a b.jpg 12\n\nc.jpg 3\n")
    source = files_from_labeled_list(str(tmp_path / "list.txt"), None)
    check_source(source)
    assert source.read(np.arange(2), [None, None])[1].ravel().tolist() == [12, 3]
    # As in DALI, any white space precedes the label. Windows editors write a byte order mark.
    (tmp_path / "list.txt").write_bytes(b"\xef\xbb\xbfwith space/a b.jpg\t12\r\n\tc.jpg \t 3 \n")
    assert files_from_labeled_list(str(tmp_path / "list.txt"), None).reads_same_samples(source)
    (tmp_path / "list.txt").write_bytes(b"\xef\xbb\xbfc.jpg\n")
    assert files_from_name_list(str(tmp_path / "list.txt"), None).path(0) == str(tmp_path / "c.jpg")
    files = files_from_paths(str(tmp_path), ("c.jpg", "with space/a b.jpg"), (-1, 7))
    check_source(files)
    assert files.read(np.arange(2), [None, None])[1].ravel().tolist() == [-1, 7]
    numbered = files_from_paths("", (str(tmp_path / "c.jpg"),) * 3, None)
    assert numbered.read(np.arange(3), [None, None])[1].ravel().tolist() == [0, 1, 2]


def test_the_fingerprint_does_not_know_where_files_are_mounted(tmp_path):
    prints = []
    for place in ("here", "there"):
        root = tree(tmp_path / place, "a/1.jpg", "b/2.jpg")
        files = tuple(str(root / name) for name in ("a/1.jpg", "b/2.jpg"))
        prints.append(
            (
                list_class_folders(str(root), JPG, (), False).fingerprint(),
                files_from_paths("", files, None).fingerprint(),
            )
        )
    assert prints[0] == prints[1]
    tree(tmp_path / "here", "b/3.jpg")
    assert list_class_folders(str(tmp_path / "here"), JPG, (), False).fingerprint() != prints[0][0]


def test_what_is_no_folder_of_files(tmp_path):
    assert "no folder" in refused(
        lambda: list_class_folders(str(tmp_path / "none"), JPG, (), False), SourceNotFoundError
    )
    assert "no files found" in refused(lambda: list_class_folders(str(tmp_path), JPG, (), False), SourceError)
    assert "no file" in refused(lambda: files_from_paths("", ("/none.jpg",), None), SourceNotFoundError)
    assert "2 labels for 1 files" in refused(lambda: files_from_paths("", ("a",), (1, 2)), SourceError)
    assert "does not exist" in refused(
        lambda: files_from_labeled_list(str(tmp_path / "none"), None), SourceNotFoundError
    )
    (tmp_path / "list").write_text("a.jpg x\n")
    assert "list:1" in refused(lambda: files_from_labeled_list(str(tmp_path / "list"), None), SourceError)


def test_a_file_that_went_away(tmp_path):
    source = list_class_folders(str(tree(tmp_path, "a/1.jpg", "a/2.jpg")), JPG, (), False)
    (tmp_path / "a/2.jpg").unlink()
    message = refused(lambda: source.read(np.array([0, 1]), [None, None]), SampleError)
    assert "sample 1" in message
    assert str(tmp_path / "a/2.jpg") in message


@pytest.mark.parametrize("dtype", [">u1", ">i1", ">i2", ">i4", ">f4", ">f8"])
@pytest.mark.parametrize("packed", [False, True])
def test_idx(tmp_path, dtype, packed):
    values = np.arange(24).reshape(2, 3, 4).astype(dtype)
    code = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}[dtype[1:]]
    data = bytes([0, 0, code, 3]) + np.array(values.shape, ">u4").tobytes() + values.tobytes()
    path = tmp_path / ("x.gz" if packed else "x")
    path.write_bytes(gzip.compress(data) if packed else data)
    read = read_idx(path)
    assert np.array_equal(read, values)
    assert read.dtype.isnative


def test_what_is_no_idx(tmp_path):
    path, packed = tmp_path / "x", tmp_path / "x.gz"
    for content in (b"", b"\0\0", b"text", bytes([0, 0, 8, 2, 0, 0, 0, 9]), bytes([0, 0, 8, 1, 0, 0, 0, 9, 1])):
        path.write_bytes(content)
        assert str(path) in refused(lambda: read_idx(path), SourceError)
    packed.write_bytes(b"no gzip")
    assert "gzip" in refused(lambda: read_idx(packed), SourceError)
    packed.write_bytes(gzip.compress(bytes(1000))[:-20])
    assert "gzip" in refused(lambda: read_idx(packed), SourceError)


def test_arrays_that_do_not_match():
    with pytest.raises(DefinitionError, match="same number of rows"):
        ArraySource([np.zeros(3), np.zeros(4)], ["", ""])
    with pytest.raises(DefinitionError, match="at least one"):
        ArraySource([np.zeros((0, 4))], [""])


def test_every_source_is_checked_here():
    def subclasses(kind):
        return {kind, *(deeper for child in kind.__subclasses__() for deeper in subclasses(child))}

    for module in pkgutil.walk_packages(penstock.sources.__path__, "penstock.sources."):
        importlib.import_module(module.name)
    ours = [kind for kind in subclasses(Source) if kind.__module__.startswith("penstock.sources")]
    names = {kind.__name__ for kind in ours if not inspect.isabstract(kind)}
    others = {
        "ConcatSource",
        "FlatLabelSource",
        "SubsetSource",
        "NpyRoiSource",
    }  # tests/sources/combine/test_mixing.py, test_flat_labels.py, test_npy_source.py
    assert names == {
        *others,
        "ArrayRecordSource",
        "ArraySource",
        "Caffe2Source",
        "CaffeSource",
        "CocoSource",
        "FileSource",
        "FitsSource",
        "MapStyleSource",
        "NemoSource",
        "NpySource",
        "ParquetSource",
        "RecordIOSource",
        "SampleNames",
        "SequenceSource",
        "TFRecordSource",
        "VideoSource",
        "WebdatasetSource",
    }


def cifar10(folder, name, numbers):
    """A file of records: the label, then planes that tell number and channel."""
    folder.mkdir(exist_ok=True)
    planes = [np.concatenate([np.full(1024, 10 * n + c, np.uint8) for c in range(3)]) for n in numbers]
    (folder / name).write_bytes(b"".join(bytes([n]) + p.tobytes() for n, p in zip(numbers, planes, strict=True)))


def test_cifar10_reads_whole_batches_over_all_files(tmp_path, monkeypatch):
    for name, numbers in (("data_batch_2.bin", range(4, 9)), ("data_batch_1.bin", range(4)), ("test_batch.bin", [7])):
        cifar10(tmp_path, name, numbers)
    (tmp_path / "data_batch_readme").mkdir()
    source = open_cifar10(str(tmp_path), "data_batch_")
    check_source(source)
    assert [str(spec) for spec in source.specs] == ["uint8[3, 32, 32] CHW", "int32[1]"]
    images, labels = source.read(np.array([8, 0, 5]), [None, None])
    assert labels.tolist() == [[8], [0], [5]]
    assert images[:, :, 31, 31].tolist() == [[80, 81, 82], [0, 1, 2], [50, 51, 52]]
    assert "data_batch_1.bin, data_batch_2.bin" in source.describe(3)
    assert len(open_cifar10(str(tmp_path), "test_batch")) == 1


def test_cifar10_in_sub_folders(tmp_path):
    cifar10(tmp_path / "b", "data_batch_1.bin", [1, 2])
    cifar10(tmp_path / "a", "data_batch_1.bin", [3])
    _, labels = open_cifar10(str(tmp_path), "data_batch_").read(np.arange(3), [None, None])
    assert labels.ravel().tolist() == [3, 1, 2]


def test_what_is_no_cifar10(tmp_path):
    with pytest.raises(SourceNotFoundError, match="not a folder"):
        open_cifar10(str(tmp_path / "none"), "data_batch_")
    (tmp_path / "data_batch_1.bin").write_bytes(b"")
    with pytest.raises(SourceError, match="empty"):
        open_cifar10(str(tmp_path), "data_batch_")
    with pytest.raises(SourceNotFoundError, match=r"data_batch_1.bin"):
        open_cifar10(str(tmp_path), "test_batch")
    (tmp_path / "data_batch_1.bin").write_bytes(bytes(3072))
    with pytest.raises(SourceError, match="3072 bytes"):
        open_cifar10(str(tmp_path), "data_batch_")


@pytest.mark.parametrize("said", [[np.zeros((3, 2))], [np.ones((3, 2)), np.ones(3)]])
def test_what_a_source_says_to_have_in_memory_is_what_it_reads(said):
    source = ArraySource([np.ones((3, 2))], [""])
    check_source(source)
    source.in_memory = said
    with pytest.raises(AssertionError, match="in memory"):
        check_source(source)
