"""Readers of objects in a store, compared with the same readers of local files."""

import gc
import gzip
import importlib
import io
import json
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import pytest
from read_source import check_worker_process
from simplejpeg import encode_jpeg

from penstock import Pipeline, fn, tfrecord
from penstock.cli import main
from penstock.errors import PenstockWarning, SampleError, SourceNotFoundError
from penstock.graph.ir.operator import Reader
from penstock.sources.files.class_folders import list_class_folders
from penstock.sources.files.file_lists import files_from_labeled_list, files_from_paths
from penstock.sources.formats.caffe.caffe_source import write_caffe
from penstock.sources.formats.recordio_source import RecordIOSource, encode_record, write_recordio
from penstock.sources.formats.tfrecord.example_message import encode_example
from penstock.sources.formats.tfrecord.tfrecord_source import TFRecordSource, write_tfrecord
from penstock.sources.sample_digest import sample_digest
from penstock.sources.storage.byte_range import ReadCost
from penstock.testing import check_source

NAMES = ["cat/1.jpg", "cat/ä %20+#?.jpg", "dog/1.jpg", "dog/2 2.png", "dog/deep/3.jpg", "dog/note.txt", "eel/list"]
FILTERS = (("*.jpg", "*.png"), (), False)


def content(name):
    return name.encode() * (1 + len(name) % 3)


@pytest.fixture
def folder(tmp_path, s3):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content(name))
        s3.put(f"train/{name}", content(name))
    return tmp_path


def columns(source):
    data = source.read(np.arange(len(source)), [None] * len(source.specs))
    return [[np.asarray(value).tolist() for value in column] for column in data]


@pytest.mark.parametrize("scheme", ["s3", "gs"])  # Google's XML API is that of S3
def test_a_prefix_is_a_folder_of_files(scheme, folder, s3, monkeypatch):
    monkeypatch.setenv("GOOGLE_BASE_URL", f"http://127.0.0.1:{s3.proxy.port}")
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    unread = "3 class folders; 1 of them, such as 'eel'.*files in deeper folders, such as 'dog/deep'"
    with pytest.warns(PenstockWarning, match=f"^'/.*{unread}"):
        near = list_class_folders(str(folder), *FILTERS)
    with pytest.warns(PenstockWarning, match=f"^'{scheme}:.*{unread}"):
        far = list_class_folders(f"{scheme}://{s3.bucket}/train/", *FILTERS)
    assert columns(far) == columns(near)
    assert far.fingerprint() == near.fingerprint()
    assert [far.source_info(index) for index in range(len(far))] == [
        near.source_info(index) for index in range(len(near))
    ]
    assert (near.cost, far.cost) == (ReadCost.FILE, ReadCost.STORE)
    check_source(far)


@pytest.mark.filterwarnings("ignore::penstock.errors.PenstockWarning")
def test_copies_in_a_store_have_the_same_digest_of_samples(folder, s3):
    near, far = (list_class_folders(root, *FILTERS) for root in (str(folder), f"{s3.url}/train/"))
    assert sample_digest(far) == sample_digest(near)
    s3.put("train/cat/1.jpg", content("cat/2.jpg"))
    changed = sample_digest(far)
    assert changed != sample_digest(near)
    s3.delete("train/cat/1.jpg")
    assert sample_digest(far) not in (changed, sample_digest(near))


def test_lists_of_objects(folder, s3):
    lines = f"dog/1.jpg 3\n{s3.url}/train/cat/1.jpg 4\n"
    (folder / "list").write_text(lines)
    s3.put("train/list", lines.encode())
    far = files_from_labeled_list(s3.url + "/train/list", None)
    assert columns(far) == columns(files_from_labeled_list(str(folder / "list"), s3.url + "/train"))
    assert columns(far)[1] == [[3], [4]]
    mixed = files_from_paths("", (str(folder / "cat/1.jpg"), s3.url + "/train/dog/1.jpg"), None)
    assert columns(mixed) == [[list(content("cat/1.jpg")), list(content("dog/1.jpg"))], [[0], [1]]]


@pytest.mark.parametrize("name", ["./cat/1.jpg", "dog/../cat/1.jpg", "../train/cat/1.jpg", "dog/./..//cat/1.jpg"])
def test_relative_parts_of_names(name, folder, s3):
    for root in (f"{s3.url}/train", f"{s3.url}/train/", f"{s3.url}/train//"):
        assert files_from_paths(root, (name,), None).content(0).tobytes() == content("cat/1.jpg")
    s3.put("train/list", f"{name} 3\n".encode())
    assert columns(files_from_labeled_list(s3.url + "/train/list", None)) == [[list(content("cat/1.jpg"))], [[3]]]


@pytest.mark.filterwarnings("ignore:.*class folder:penstock.errors.PenstockWarning")
def test_folders_may_have_relative_parts_and_slashes(folder, s3):
    for root in (f"{s3.url}/train//", f"{s3.url}/other/../train", f"{s3.url}/./train/."):
        assert columns(list_class_folders(root, *FILTERS)) == columns(list_class_folders(str(folder), *FILTERS))


@pytest.mark.filterwarnings("ignore:.*class folder:penstock.errors.PenstockWarning")
@pytest.mark.parametrize("source", ["/train", "/train/", "/train/list"])
def test_pack_from_a_store(source, folder, s3, capsys):
    for value, name in enumerate(NAMES[:4]):
        image = encode_jpeg(np.full((8, 8, 3), value, np.uint8))
        (folder / name).write_bytes(image)
        s3.put(f"train/{name}", image)
    for root in (folder, s3):
        text = "".join(f"{name} 3\n" for name in NAMES[:4])
        folder.joinpath("list").write_text(text) if root is folder else s3.put("train/list", text.encode())
    assert main(["pack", s3.url + source, str(folder / "far"), "--threads", "1"]) == 0
    assert main(["pack", f"{folder}{source.removeprefix('/train')}", str(folder / "near"), "--threads", "1"]) == 0
    far, near = ([path.read_bytes() for path in sorted((folder / each).glob("*.tar"))] for each in ("far", "near"))
    assert far == near != []
    again = ["pack", s3.url + source, str(folder / "far")]
    assert main(again) == 0
    key = f"train/{NAMES[2]}"
    data = (folder / NAMES[2]).read_bytes()
    s3.put(key, data[::-1])
    assert main(again) == 2
    assert "its samples have changed since they were packed" in capsys.readouterr().err
    s3.put(key, data)
    assert main(again) == 0


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{url}/nothing", "no files found in"),
        ("s3://no-such-bucket-at-all/a", "the bucket 'no-such-bucket-at-all' does not exist"),
    ],
)
def test_what_cannot_be_packed(source, said, s3, tmp_path, capsys):
    assert main(["pack", source.format(url=s3.url), str(tmp_path / "packed")]) == 1
    assert said in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["pack", str(tmp_path), s3.url])
    assert "is not a local folder" in capsys.readouterr().err


def write_tar(path, samples):
    with tarfile.open(path, "w") as archive:
        for name, data in samples:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def tar(path):
    samples = [(f"{n:03}", bytes([n]) * (n * 37 % 900)) for n in range(40)]
    write_tar(path, [(f"{name}.{ext}", part) for name, data in samples for ext, part in (("jpg", data), ("cls", b"1"))])
    return ()


def records(path):
    write_tfrecord(path, [encode_example({"image": bytes([n]) * (n * 97 % 3000), "label": [n]}) for n in range(40)])
    return ()


def mxnet(path):
    return (write_recordio(path, [encode_record(bytes([n]) * n, [float(n)]) for n in range(1, 30)]),)


def array(path):
    with path.open("wb") as file:
        np.save(file, np.arange(6).reshape(2, 3))
    return ()


def parquet(path):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"image": [bytes([n]) * n for n in range(40)], "label": list(range(40))})
    importlib.import_module("pyarrow.parquet").write_table(table, path, row_group_size=7)
    return ()


def speech(path):
    soundfile = pytest.importorskip("soundfile")
    sound = path.parent / "sounds" / "1 ä.wav"
    sound.parent.mkdir()
    soundfile.write(sound, np.sin(np.arange(4000)), 8000)
    lines = [
        '{"audio_filepath": "./sounds/1 ä.wav", "offset": %f, "duration": 0.1, "text": "no"}' % (n / 80)
        for n in range(40)
    ]
    path.write_text("\n".join(lines))
    return (sound,)


def video(path):
    with pytest.importorskip("av").open(path, "w", format="mp4") as file:
        stream = file.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.gop_size = 32, 16, 8
        for number in range(40):
            pixels = np.full((16, 32, 3), 6 * number, np.uint8)
            file.mux(stream.encode(importlib.import_module("av").VideoFrame.from_ndarray(pixels)))
        file.mux(stream.encode())
    return ()


def array_record(path):
    module = pytest.importorskip("array_record.python.array_record_module")
    writer = module.ArrayRecordWriter(str(path), "group_size:1")
    for number in range(40):
        writer.write(bytes([number]) * (number * 97 % 3000 + 1))
    writer.close()
    return ()


def lmdb(path):
    pytest.importorskip("lmdb")
    write_caffe(path, ((bytes([number]) * (number * 997 % 30000), number) for number in range(1, 40)))
    return (path / "data.mdb",)


def cifar10(path):
    path.mkdir()
    for number in (1, 2):
        (path / f"data_batch_{number}.bin").write_bytes(bytes(range(40 * number, 40 * number + 40)) * 3073)
    return path / "data_batch_2.bin", path / "data_batch_1.bin"


def mnist(path):
    path.mkdir()
    sizes = b"".join(number.to_bytes(4, "big") for number in (40, 3, 2))
    (path / "train-images.idx3-ubyte").write_bytes(bytes([0, 0, 8, 3]) + sizes + bytes(range(240)))
    labels = bytes([0, 0, 8, 1, 0, 0, 0, 40, *range(40)])
    (path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    return path / "train-images.idx3-ubyte", path / "train-labels-idx1-ubyte.gz"


def coco(path):
    path.mkdir()
    image = {"id": 1, "file_name": "0.jpg", "width": 100, "height": 50}
    thing = {"image_id": 1, "category_id": 17, "bbox": [10, 20, 30, 15]}
    annotations = {"images": [image], "annotations": [thing], "categories": [{"id": 17}]}
    (path / "all.json").write_text(json.dumps(annotations))
    (path / "0.jpg").write_bytes(b"a jpeg")
    saved = {"save_preprocessed_annotations": True, "save_preprocessed_annotations_dir": path}
    with Pipeline(1):
        fn.readers.coco(file_root=path, annotations_file=path / "all.json", **saved)
    return tuple(path.iterdir())


READERS = {
    "coco": (
        coco,
        lambda path, index: (
            *fn.readers.coco(file_root=path, annotations_file=f"{path}/all.json"),
            *fn.readers.coco(file_root=path, preprocessed_annotations=path),
        ),
    ),
    "cifar10": (cifar10, lambda path, index: fn.readers.cifar10(file_root=path, random_shuffle=True, seed=1)),
    "mnist": (mnist, lambda path, index: fn.readers.mnist(path=path, random_shuffle=True, seed=1)),
    "array_record": (
        array_record,
        lambda path, index: (fn.readers.array_record(paths=path, random_shuffle=True, seed=1),),
    ),
    "caffe": (lmdb, lambda path, index: fn.readers.caffe(path=path, random_shuffle=True, seed=1)),
    "webdataset": (tar, lambda path, index: fn.readers.webdataset(paths=path, ext=["jpg", "cls"])),
    "tfrecord": (
        records,
        lambda path, index: tuple(
            fn.readers.tfrecord(
                path=path,
                features={
                    "image": tfrecord.FixedLenFeature((), tfrecord.string, ""),
                    "label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
                },
                random_shuffle=True,
                seed=1,
            ).values()
        ),
    ),
    "parquet": (parquet, lambda path, index: tuple(fn.readers.parquet(paths=path).values())),
    "mxnet": (mxnet, lambda path, index: fn.readers.mxnet(path=path, index_path=index)),
    "nemo_asr": (
        speech,
        lambda path, index: fn.readers.nemo_asr(manifest_filepaths=path, random_shuffle=True, seed=1),
    ),
    "video": (video, lambda path, index: (fn.readers.video(filenames=path, sequence_length=3, step=1),)),
    "numpy": (
        array,
        lambda path, index: (
            fn.readers.numpy(files=[path]),
            fn.readers.numpy(file_root=path.rpartition("/")[0], file_filter="dat?", roi_start=[1, 1], roi_shape=[1, 2]),
        ),
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_records_of_objects_are_those_of_files(name, tmp_path, s3):
    write, read = READERS[name]
    path = tmp_path / "data"
    written = [str(each) for each in (path, *write(path))]
    keys = [str(Path(each).relative_to(tmp_path)) for each in written]
    for key in keys:
        if (tmp_path / key).is_file():
            s3.put(key, (tmp_path / key).read_bytes())
    batches = []
    for paths in (written, [f"{s3.url}/{key}" for key in keys]):
        with Pipeline(batch_size=16, num_threads=2, prefetch_queue_depth=1) as pipeline:
            pipeline.set_outputs(*read(paths[0], paths[-1]))
        batches.append([[[*map(np.ndarray.tolist, out)] for out in pipeline.run()] for _ in range(4)])
        pipeline.close()
    assert batches[0] == batches[1]


def test_a_worker_process_reads_what_this_process_has_opened(tmp_path, s3):
    sources = {}
    for name, (write, read) in READERS.items():
        path = tmp_path / name / "data"
        path.parent.mkdir()
        written = [str(each) for each in (path, *write(path))]
        for each in filter(Path.is_file, map(Path, written)):
            s3.put(str(each.relative_to(tmp_path)), each.read_bytes())
        urls = [f"{s3.url}/{Path(each).relative_to(tmp_path)}" for each in written]
        for paths in (written, urls):
            with Pipeline(batch_size=1) as pipeline:
                pipeline.set_outputs(*read(paths[0], paths[-1]))
            operators = [node.operator for node in pipeline.graph.nodes]
            sources |= {(paths[0], n): each.source for n, each in enumerate(operators) if isinstance(each, Reader)}
    assert len(sources) >= 2 * len(READERS)
    check_worker_process(sources)


def test_one_index_of_several_objects(tmp_path, s3):
    for name, count in (("a", 3), ("b", 40), ("c", 2)):
        write_recordio(tmp_path / name, [encode_record(name.encode() * n, [float(n)]) for n in range(count)])
        s3.put(name, (tmp_path / name).read_bytes())
    near = RecordIOSource(tuple(str(tmp_path / name) for name in "abc"), ())
    starts = near.records.starts + np.repeat([0, *np.cumsum([(tmp_path / n).stat().st_size for n in "ab"])], (3, 40, 2))
    s3.put("index", "".join(f"{key}\t{start}\n" for key, start in enumerate(starts)).encode())
    assert columns(RecordIOSource(tuple(f"{s3.url}/{name}" for name in "abc"), (s3.url + "/index",))) == columns(near)


def test_records_that_follow_each_other_are_fetched_together(tmp_path, s3):
    tar(tmp_path / "data")
    s3.put("data", (tmp_path / "data").read_bytes())
    with Pipeline(batch_size=16, num_threads=2) as pipeline:
        pipeline.set_outputs(*fn.readers.webdataset(paths=s3.url + "/data", ext=["jpg", "cls"]))
    s3.proxy.asked.clear()
    for _ in range(5):
        pipeline.run()
    pipeline.close()
    assert 1 <= len(s3.proxy.asked) < 10


def test_shards_by_folder_glob_and_pattern(tmp_path, s3):
    for number in range(3):
        tar(tmp_path / "data")
        s3.put(f"shards/{number}.tar", (tmp_path / "data").read_bytes())
    s3.put("shards/0.idx", b"")
    found = []
    for paths in ("/shards/", "/shards/*.tar", "/shards/{0..2}.tar", "/shards/[01].tar"):
        with Pipeline(batch_size=1) as pipeline:
            pipeline.set_outputs(*fn.readers.webdataset(paths=s3.url + paths, ext=["jpg", "cls"], name="reader"))
        found.append(pipeline.reader_meta("reader")["epoch_size"])
    assert found == [3 * found[3] // 2] * 3 + [found[3]]
    with tarfile.open(tmp_path / "data") as file:
        words = [f"{each.name.partition('.')[2]} {each.offset_data} {each.size} {each.name}" for each in file]
    lines = [f"{image} {label}" for image, label in zip(words[::2], words[1::2], strict=True)]
    s3.put("shards/0.idx", "\n".join([f"v1.2 {len(lines)}", *lines]).encode())
    s3.proxy.asked.clear()
    with Pipeline(batch_size=1):
        shard = {"paths": f"{s3.url}/shards/0.tar", "index_paths": f"{s3.url}/shards/0.idx"}
        fn.readers.webdataset(**shard, ext=["jpg", "cls"])
    # To check the index, only the headers of the first and last file are fetched.
    ranges = [asked for method, path, asked in s3.proxy.asked if method == "GET" and path.endswith(".tar")]
    assert ranges == ["bytes=0-511", f"bytes={int(words[-1].split()[1]) - 1536}-{int(words[-1].split()[1]) - 1}"]
    with Pipeline(batch_size=1), pytest.raises(SourceNotFoundError, match="no object matches"):
        fn.readers.webdataset(paths=s3.url + "/shards/x*.tar", ext="jpg")


@pytest.mark.parametrize("name", ["array_record", "caffe"])
def test_what_becomes_of_records_in_a_store_that_are_written_to(name, tmp_path, s3, monkeypatch):
    """Pages of an LMDB are refused by their ETag; an ArrayRecord file has been copied, for as long as it is read."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    write, read = READERS[name]
    path = tmp_path / "data"
    key = str((path, *write(path))[-1].relative_to(tmp_path))
    s3.put(key, (tmp_path / key).read_bytes())
    with Pipeline(batch_size=1, num_threads=1) as pipeline:
        pipeline.set_outputs(*read(f"{s3.url}/data", None))
    s3.put(key, b"something else")
    if name == "caffe":
        with pytest.raises(SampleError, match="written to since"):
            pipeline.run()
    else:
        assert len(pipeline.run()[0].at(0)) > 0
        assert len(list(tmp_path.glob("penstock-*/*"))) == 1
    pipeline.close()
    del pipeline
    gc.collect()
    assert not list(tmp_path.glob("penstock-*"))


def test_a_video_that_was_written_to(tmp_path, s3):
    video(tmp_path / "data")
    s3.put("data", (tmp_path / "data").read_bytes())
    with Pipeline(batch_size=4, num_threads=1) as pipeline:
        pipeline.set_outputs(fn.readers.video(filenames=s3.url + "/data", sequence_length=2))
    s3.put("data", (tmp_path / "data").read_bytes() + b"more")
    with pytest.raises(SampleError, match="has been written to since the data set was opened"):
        pipeline.run()
    pipeline.close()


def test_row_groups_are_fetched_ahead_without_columns_that_nobody_reads(tmp_path, s3):
    pyarrow = pytest.importorskip("pyarrow")
    noise = np.random.default_rng(1).bytes(4000)
    images = [noise[number : number + 1000] for number in range(40)]
    table = pyarrow.table({"a": images, "not wanted": [noise] * 40, "b": [{"c": number} for number in range(40)]})
    importlib.import_module("pyarrow.parquet").write_table(
        table, tmp_path / "data", row_group_size=10, compression="none"
    )
    s3.put("data", (tmp_path / "data").read_bytes())
    with Pipeline(batch_size=10, num_threads=1) as pipeline:
        pipeline.set_outputs(*fn.readers.parquet(paths=s3.url + "/data", columns=["a", "b.c"]).values())
    s3.proxy.asked.clear()
    assert [row.tobytes() for _ in range(4) for row in pipeline.run()[0]] == images
    pipeline.close()
    ranges = [[int(at) for at in asked.removeprefix("bytes=").split("-")] for _, _, asked in s3.proxy.asked]
    assert len(ranges) == len({tuple(each) for each in ranges}) == 8  # two for each group, and nothing else
    assert sum(last - first for first, last in ranges) < (tmp_path / "data").stat().st_size / 2


def test_where_records_lie_is_kept_until_the_object_changes(tmp_path, s3, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    walks = []
    write_tfrecord(tmp_path / "data", [encode_example({"label": [7]})])
    for count in (300, 300, 301):
        s3.put("data", (tmp_path / "data").read_bytes() * count)
        s3.proxy.asked.clear()
        label = tfrecord.FixedLenFeature([1], tfrecord.int64, -1)
        source = TFRecordSource((s3.url + "/data",), (), (("label", label),))
        assert len(source) == count
        walks.append(sum(asked is not None for *_, asked in s3.proxy.asked) - 1)  # the first record is read
    assert walks == [1, 0, 1]


def test_a_damaged_answer_has_a_wrong_checksum(tmp_path, s3):
    records(tmp_path / "data")
    s3.put("data", (tmp_path / "data").read_bytes())
    source = READERS["tfrecord"][1]
    with Pipeline(batch_size=4, num_threads=1) as pipeline:
        pipeline.set_outputs(*source(s3.url + "/data", None))
    s3.proxy.fail(*["corrupt"] * 50, at="data")
    with pytest.raises(SampleError, match=r"checksum|length") as caught:
        pipeline.run()
    assert caught.value.path == s3.url + "/data"
    s3.proxy.forget()
    assert len(pipeline.run()[0]) == 4
    pipeline.close()
