"""Readers against DALI's: the same samples in the same order, with the same shapes and dtypes."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image

import penstock
from penstock import Pipeline, fn
from penstock.errors import SourceError
from penstock.sources.formats.coco.coco_annotations import CocoOptions
from penstock.sources.formats.coco.coco_source import CocoSource

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed (dependency group dali)")


def same(both, define, rows, told=True):
    actual, expected = both(define, rows=rows, told=told)
    assert len(actual) == len(expected)
    for mine, theirs in zip(actual, expected, strict=True):
        assert len(mine) == len(theirs) == rows
        for a, b in zip(mine, theirs, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert np.array_equal(a, b)


@pytest.fixture
def arrays(tmp_path):
    """Files of one dtype, in folders, with names that sort in telling ways."""
    names = ("z.npy", "b/2.npy", "b/10.npy", "b/1.NPY", "a/deep/q.npy", "a/x.npy", ".hid/h.npy", "a/.h.npy", "b/k.bin")
    for number, name in enumerate(names):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        with (tmp_path / name).open("wb") as file:
            order = np.asfortranarray if number % 2 else np.ascontiguousarray
            np.save(file, order(np.arange(6 * (number + 2)).reshape(number + 2, 6).astype(np.int32)))
    (tmp_path / "list.txt").write_text("z.npy\n\nb/2.npy\n")
    return tmp_path


def test_numpy_files(both, arrays):
    root = str(arrays)
    for options in (
        {"file_root": root},
        {"file_root": root, "file_filter": "*.bin"},
        {"file_root": root, "files": ["b/k.bin", "z.npy"]},
        {"files": root + "/z.npy"},
        {"file_list": root + "/list.txt"},
        {"file_root": root, "file_list": root + "/list.txt", "cache_header_information": True},
    ):
        same(both, lambda lib, options=options: lib.fn.readers.numpy(**options), rows=7)


@pytest.mark.parametrize(
    "options",
    [
        {"roi_start": [1, 1], "roi_end": [2, 3]},
        {"roi_start": [1], "roi_shape": [2], "roi_axes": [1]},
        {"rel_roi_start": [0.2, 0.3], "rel_roi_shape": [0.5, 0.5]},
        {"rel_roi_start": [0.17], "rel_roi_end": [0.9], "roi_axes": [-1]},
        {"roi_start": [1], "rel_roi_shape": [0.4], "roi_axes": [0]},
        {"roi_start": [1, -1], "roi_shape": [3, 8], "out_of_bounds_policy": "pad", "fill_value": 9},
        {"roi_start": [1, -1], "roi_shape": [3, 8], "out_of_bounds_policy": "trim_to_shape"},
        {"roi_start": 1},
        {"roi_end": 2, "roi_axes": 1},
    ],
    ids=str,
)
def test_parts_of_numpy_files(both, arrays, options):
    same(both, lambda lib: lib.fn.readers.numpy(file_root=str(arrays), **options), rows=6)


def test_parts_of_numpy_files_that_differ_per_sample(both, arrays):
    starts = np.arange(12, dtype=np.int32).reshape(6, 2) % 2

    def define(lib, start):
        return lib.fn.readers.numpy(file_root=str(arrays), roi_start=start, roi_shape=[1, 4])

    actual, expected = both(define, list(starts))
    for a, b in zip(actual[0], expected[0], strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"],
)
def test_types_of_numpy_files(both, tmp_path, dtype):
    for number, values in enumerate(([[0, 1], [1, 1]], [[1, 0]], np.zeros((0, 2)))):
        np.save(tmp_path / f"{number}.npy", np.asarray(values).astype(dtype))
    same(both, lambda lib: lib.fn.readers.numpy(file_root=str(tmp_path)), rows=3)
    whole = {"roi_start": [0], "roi_shape": [1], "roi_axes": [1]}
    same(both, lambda lib: lib.fn.readers.numpy(file_root=str(tmp_path), **whole), rows=3)


def test_numpy_files_of_one_number(both, tmp_path):
    np.save(tmp_path / "0.npy", np.float32(3))
    same(both, lambda lib: lib.fn.readers.numpy(file_root=str(tmp_path)), rows=2)


def test_tfrecord_files(both, tmp_path):
    from nvidia import dali

    import penstock
    from penstock.sources.formats.tfrecord.example_message import encode_example
    from penstock.sources.formats.tfrecord.tfrecord_source import write_tfrecord

    numbers = [
        {
            "image": b"j" * (n + 1),
            "label": [n - 1],
            "box": [0.5 * n] * (4 * n),
            "words": [-n] * n + [2**40],
            "empty": [],
        }
        for n in range(1, 7)
    ]
    paths, indexes = [str(tmp_path / name) for name in "ab"], [str(tmp_path / f"{name}.idx") for name in "ab"]
    for path, index, some in zip(paths, indexes, (numbers[:4], numbers[4:]), strict=True):
        examples = [encode_example(each) for each in some]
        write_tfrecord(path, examples)
        sizes = [len(each) + 16 for each in examples]
        lines = (f"{sum(sizes[:n])} {size}\n" for n, size in enumerate(sizes))
        (tmp_path / index).write_text("".join(lines))

    def define(lib):
        tf = penstock.tfrecord if lib.fn is penstock.fn else dali.tfrecord
        features = {
            "image": tf.FixedLenFeature((), tf.string, ""),
            "label": tf.FixedLenFeature([1], tf.int64, -1),
            "number": tf.FixedLenFeature([], tf.int64, -1),
            "box": tf.VarLenFeature([4], tf.float32, 0.0),
            "words": tf.VarLenFeature(tf.int64, 0),
            "empty": tf.VarLenFeature([2], tf.int64, 0),
        }
        del features["number"]
        read = lib.fn.readers.tfrecord(path=paths, index_path=indexes, features=features)
        assert isinstance(read, dict)
        return tuple(read[name] for name in features)

    same(both, define, rows=6)


@pytest.mark.parametrize("shape", [(), ([],), ([4],), ([2, 2],)], ids=str)
def test_features_of_varying_length_that_no_record_has(both, tmp_path, shape):
    from nvidia import dali

    import penstock
    from penstock.sources.formats.tfrecord.example_message import encode_example
    from penstock.sources.formats.tfrecord.tfrecord_source import write_tfrecord

    path, index, example = str(tmp_path / "a"), tmp_path / "a.idx", encode_example({"label": [1]})
    write_tfrecord(path, [example] * 3)
    index.write_text("".join(f"{n * (len(example) + 16)} {len(example) + 16}\n" for n in range(3)))

    def define(lib):
        tf = penstock.tfrecord if lib.fn is penstock.fn else dali.tfrecord
        features = {"x": tf.VarLenFeature(*shape, tf.float32, 0.5), "n": tf.VarLenFeature(*shape, tf.int64, 7)}
        read = lib.fn.readers.tfrecord(path=path, index_path=str(index), features=features)
        return read["x"], read["n"]

    actual, expected = both(define, rows=3)
    for mine, theirs, default in zip(actual, expected, (0.5, 7), strict=True):
        assert [(s.shape, s.dtype) for s in mine] == [(s.shape, s.dtype) for s in theirs]
        assert [s.item() for s in mine] == [default] * 3, "DALI's are not initialized"


@pytest.fixture
def objects(tmp_path):
    """A COCO data set of three images: objects of all kinds, none, and numbers that are in no order."""
    import json

    images = [(9, "b.jpg", 100, 50), (3, "a.jpg", 40, 80), (5, "c.jpg", 10, 10)]
    for number, name, _, _ in images:
        (tmp_path / name).write_bytes(name.encode() * number)
    polygons, runs = [[10, 5, 30, 5, 30, 15], [1, 2, 3, 4, 5, 6, 7, 8]], {"counts": [0, 10, 4990], "size": [50, 100]}
    rows = [
        (9, 7, [10, 5, 20.5, 10.1], 0, polygons),
        (3, 90, [1, 2, 0.05, 4], 0, [[1, 2, 5, 2, 5, 6]]),
        (9, 18, [0, 0, 100, 50], 1, runs),
        (3, 7, [3, 4.7, 5, 6.3], 0, [[3, 4, 8, 4, 8, 10.1]]),
    ]
    annotations = [
        {"id": n, "image_id": image, "category_id": category, "bbox": box, "iscrowd": crowd, "segmentation": outline}
        for n, (image, category, box, crowd, outline) in enumerate(rows)
    ]
    content = {
        "images": [dict(zip(("id", "file_name", "width", "height"), image, strict=True)) for image in images],
        "annotations": annotations,
        "categories": [{"id": number, "name": str(number)} for number in (90, 7, 18)],
    }
    (tmp_path / "annotations.json").write_text(json.dumps(content))
    return {"file_root": str(tmp_path), "annotations_file": str(tmp_path / "annotations.json")}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ratio": True, "ltrb": True, "polygon_masks": True, "image_ids": True},
        {"ratio": True},
        {"ltrb": True, "skip_empty": True, "image_ids": True},
        {"avoid_class_remapping": True, "size_threshold": 5.5},
        {"size_threshold": 0.01},
        {"polygon_masks": True, "include_iscrowd": False},
        {"pixelwise_masks": True, "image_ids": True},
        {"masks": True, "polygon_masks": False, "image_ids": True},
        {"masks": True, "polygon_masks": True, "ratio": True},
        {"images": ["c.jpg", "a.jpg"], "polygon_masks": True},
    ],
    ids=str,
)
def test_coco(both, objects, options):
    same(both, lambda lib: lib.fn.readers.coco(**objects, **options), rows=3)


MASKS = ("polygon_masks", "masks", "pixelwise_masks")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "options",
    [
        {"polygon_masks": True, "image_ids": True, "images": ["c.jpg", "b.jpg", "a.jpg"]},
        {"masks": True, "skip_empty": True, "ratio": True},
        {"ratio": True, "ltrb": True},
        {"image_ids": True},
        {"pixelwise_masks": True, "ltrb": True},
    ],
)
def test_preprocessed_annotations(both, objects, tmp_path, options):
    """DALI and penstock write the same, and read what the other wrote; penstock also by older names."""
    older = "image_ids" in options
    folder, ours = tmp_path / "preprocessed", tmp_path / "ours"
    for lib, to in ((dali, folder), (penstock, ours)):
        to.mkdir()
        with lib.Pipeline(1, 1, None) as written:
            name = "dump_meta_files" if lib is penstock and older else "save_preprocessed_annotations"
            saved = {name: True, name + ("_path" if name == "dump_meta_files" else "_dir"): str(to)}
            written.set_outputs(*lib.fn.readers.coco(**objects, **options, **saved))
        written.build()
    assert contents(ours) == contents(folder)
    kept = {name: value for name, value in options.items() if name in {*MASKS, "image_ids"}}
    rows = 2 if "skip_empty" in options else 3

    def define(lib):
        to = folder if lib is not dali else ours
        name = "meta_files_path" if lib is penstock and older else "preprocessed_annotations"
        return lib.fn.readers.coco(file_root=objects["file_root"], **{name: str(to)}, **kept)

    same(both, define, rows=rows)
    masks = not kept.keys().isdisjoint(MASKS)
    pixels = "pixelwise_masks" in kept
    read = CocoOptions(
        polygon_masks=masks and not pixels, pixelwise_masks=pixels, image_ids="image_ids" in kept, preprocessed=True
    )
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        if path.name[:4] in {"boxe", "coun", "labe", "offs"} or (masks and path.name != "filenames.dat"):
            with pytest.raises(SourceError, match="is damaged"):
                CocoSource(str(tmp_path), str(folder), None, read)
        path.write_bytes(content)


@pytest.fixture
def tar(tmp_path):
    """A function that writes a tar file of names and contents."""
    import io
    import tarfile

    def write(name, *members, form=tarfile.USTAR_FORMAT):
        with tarfile.open(tmp_path / name, "w", format=form) as file:
            for member, data in members:
                entry = tarfile.TarInfo(member)
                entry.size, entry.type = len(data or b""), tarfile.DIRTYPE if data is None else tarfile.REGTYPE
                file.addfile(entry, io.BytesIO(data or b""))
        return str(tmp_path / name)

    return write


MEMBERS = [
    ("dir", None), ("dir/1.jpg", b"one"), ("dir/1.cls", b"\1\0\0\0"), ("dir/2.x.jpg", b"two"),
    ("dir/2.cls", b"\2\0\0\0"), (".hidden.jpg", b"hid"), ("dir/3.cls", b"3\0\0\0"), ("dir/4.png", b"four"),
    ("dir/4.JPG", b"FOUR"), ("dir/5.jpg", b"five"), ("noext", b"n"), ("dir/6.seg.png", b"seg"), ("dir/6.jpg", b"six"),
    ("dir/1.jpg", b"again"),
]  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {"ext": ["jpg"]},
        {"ext": ["jpg", "cls"]},
        {"ext": ["jpg", "cls"], "missing_component_behavior": "skip"},
        {"ext": ["jpg;png", "cls"], "missing_component_behavior": "empty"},
        {"ext": "cls"},
        {"ext": ["jpg"], "case_sensitive_extensions": False},
        {"ext": ["x.jpg", "seg.png"]},
        {"ext": ["png;jpg"]},
        {"ext": ["cls"], "dtypes": ["INT32"]},
        {"ext": ["cls", "jpg"], "dtypes": ["FLOAT", "UINT8"]},
    ],
    ids=str,
)
def test_webdataset(both, tar, options):
    import tarfile

    paths = [
        tar("a.tar", *MEMBERS),
        tar("b.tar", ("x" * 120 + "/1.jpg", b"l"), ("2.jpg", b""), form=tarfile.GNU_FORMAT),
    ]

    def define(lib):
        given = dict(options)
        if "dtypes" in given:
            given["dtypes"] = [getattr(lib.types, name) for name in given["dtypes"]]
        return lib.fn.readers.webdataset(paths=paths, **given)

    same(both, define, rows=10)


def test_webdataset_with_an_index(both, tar, tmp_path):
    import wds2idx

    path, index = tar("a.tar", *MEMBERS), str(tmp_path / "a.idx")
    with wds2idx.IndexCreator(path, index) as creator:
        creator.create_index()
    same(both, lambda lib: lib.fn.readers.webdataset(paths=path, ext=["jpg", "cls"], index_paths=index), rows=9)


def test_shuffle_of_a_webdataset_named_twice(tar):
    path, orders = tar("a.tar", *MEMBERS), []
    for options in ({"shuffle_after_epoch": True}, {}):
        with Pipeline(5, seed=3) as pipeline:
            pipeline.set_outputs(fn.readers.webdataset(paths=path, ext=["jpg"], random_shuffle=True, **options))
        orders.append([np.asarray(sample).tobytes() for sample in pipeline.run()[0]])
    assert orders[0] == orders[1]


def test_recordio(both, tmp_path):
    from penstock.sources.formats.recordio_source import encode_record, write_recordio

    magic = (0xCED7230A).to_bytes(4, "little")
    records = [encode_record(b"x" * n + magic * (n % 3) + b"yz", [n + 0.5] * (1 + n // 4), n) for n in range(7)]
    paths, indexes = [str(tmp_path / name) for name in ("a.rec", "b.rec")], []
    for path, some in zip(paths, (records[:4], records[4:]), strict=True):
        indexes.append(write_recordio(path, some))
    (tmp_path / "a.idx").write_text("".join(reversed((tmp_path / "a.idx").read_text().splitlines(keepends=True))))
    for number, rows in ((0, 4), (1, 3)):
        options = {"path": paths[number], "index_path": indexes[number]}
        same(both, lambda lib, options=options: lib.fn.readers.mxnet(**options), rows=rows)
    starts = np.cumsum([0, *map(len, records)])[:-1].tolist()
    (tmp_path / "all.idx").write_text("".join(f"{number}\t{start}\n" for number, start in enumerate(starts)))
    several = {"path": paths, "index_path": str(tmp_path / "all.idx")}  # the only way in which DALI takes several
    same(both, lambda lib: lib.fn.readers.mxnet(**several), rows=4)
    golden = Path(__file__).parents[1] / "sources" / "golden"
    written = {"path": str(golden / "mxnet.rec"), "index_path": str(golden / "mxnet.idx")}  # by MXNet itself
    same(both, lambda lib: lib.fn.readers.mxnet(**written), rows=7)


def test_caffe(both, tmp_path, monkeypatch):
    import lmdb

    from penstock.sources.formats.protobuf_wire import encode_bytes, encode_int

    size = encode_int(1, 3) + encode_int(2, 2) + encode_int(3, 1)
    raw = size + encode_bytes(4, bytes(range(6))) + encode_int(5, 9) + encode_int(7, 0)
    encoded = [encode_bytes(4, b"a jpeg") + encode_int(5, -3) + encode_int(7, 1), size + encode_int(5, 2)]
    monkeypatch.chdir(tmp_path)
    for name, records in (("raw", [raw, raw]), ("encoded", encoded)):
        environment = lmdb.open(name)
        with environment.begin(write=True) as transaction:
            for number, record in enumerate(records):
                transaction.put(b"%08d" % number, record)
        environment.close()
        for options in ({}, {"label_available": False}, {"image_available": False}):
            given = {"path": name, **options}
            same(both, lambda lib, given=given: lib.fn.readers.caffe(**given), rows=2)


def test_sequences_of_images(both, tmp_path):
    rng = np.random.default_rng(4)
    for name in ("b/1.png", "b/10.png", "b/2.PNG", "a/1.jpg", "a/0.jpg", "a/.0.jpg", ".c/0.png", "b/x.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        image = Image.fromarray(rng.integers(0, 256, (20, 30 + (name[0] == "b"), 3), dtype=np.uint8))
        image.save(tmp_path / name, "PNG" if name[0] == "b" else "JPEG")
    for options in ({}, {"step": 2}, {"sequence_length": 1}, {"stride": 2}):
        given = {"file_root": str(tmp_path), "sequence_length": 2, **options}
        same(both, lambda lib, given=given: lib.fn.readers.sequence(**given), rows=7, told=False)
    given = {"file_root": str(tmp_path), "sequence_length": 1}
    same(both, lambda lib: lib.fn.readers.sequence(image_type=lib.types.BGR, **given), rows=5, told=False)


@pytest.mark.parametrize(
    "options",
    [
        {"read_idxs": True},
        {"min_duration": 0.00055, "read_idxs": True},
        {"max_duration": 0.0015, "read_idxs": True},
        {"sample_rate": 12000.0, "read_sample_rate": False},
        {"sample_rate": 16000.0, "quality": 90.0, "read_text": False},
        {"sample_rate": 8000.0, "downmix": False},
        {"downmix": False, "dtype": "INT16"},
        {"dtype": "INT32"},
        {"sample_rate": 12000.0, "dtype": "INT16"},
    ],
    ids=str,
)
def test_speech(both, tmp_path, options):
    rng = np.random.default_rng(5)
    soundfile.write(tmp_path / "a.wav", rng.normal(size=(100, 2)) / 9, 8000)
    soundfile.write(tmp_path / "b.flac", rng.normal(size=300) / 9, 16000)
    parts = [{}, {"text": 'é "x"\n'}, {"offset": 0.002}, {"offset": 0.0111, "duration": 1}, {"duration": 0.0011}]
    parts += [{"offset": int(n) / 16000, "duration": round(int(n) / 16000, 5), "text": str(n)} for n in range(1, 99, 7)]
    entries = [{"audio_filepath": str(tmp_path / name), **part} for part in parts for name in ("a.wav", "b.flac")]
    (tmp_path / "m").write_text("\n".join(map(json.dumps, entries)))
    (tmp_path / "n").write_text(json.dumps(entries[3]))

    def define(lib):
        given = {**options, "dtype": getattr(lib.types, options.get("dtype", "FLOAT"))}
        return lib.fn.readers.nemo_asr(manifest_filepaths=[str(tmp_path / "m"), str(tmp_path / "n")], **given)

    actual, expected = both(define, rows=42)
    assert len(actual) == len(expected)
    for mine, theirs in zip(actual, expected, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            off = {"float32": 3e-5, "int16": 1, "int32": 2**17}.get(a.dtype.name, 0)
            np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=0, atol=off)
