"""Open data sets are shared for as long as they are what was opened, and end with what reads them."""

import errno
import gc
import os
import subprocess
import sys
import weakref

import jax
import numpy as np
import pytest

from penstock import Pipeline, data_iterator, fn, peekable_data_iterator, tfrecord
from penstock.errors import SourceError
from penstock.sources.formats.array_source import ArraySource
from penstock.sources.formats.caffe.caffe2_source import write_caffe2
from penstock.sources.storage.file_stamps import file_stamps


def source_of(read, **arguments):
    with Pipeline(batch_size=2) as pipeline:
        pipeline.set_outputs(*read(**arguments))
    return pipeline.graph.readers[0].operator.source


def later(path):
    """Move the time at which a path was written: a clock may tick too slowly for a test."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))


def write_cifar(path, label):
    path.write_bytes(bytes([label]) + bytes(3072))


def write_idx(folder, labels):
    head = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in (len(labels), 28, 28))
    (folder / "train-images-idx3-ubyte").write_bytes(head + bytes(784 * len(labels)))
    (folder / "train-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, len(labels), *labels]))


def labels_of(source):
    columns = source.read(np.arange(len(source)), [None] * len(source.specs))
    return np.ravel(columns[1]).tolist()


def test_a_changed_folder_is_listed_anew(tmp_path):
    for name in ("a/1.jpg", "b/1.jpg"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"1")
    first = source_of(fn.readers.file, file_root=tmp_path)
    assert source_of(fn.readers.file, file_root=tmp_path) is first
    (tmp_path / "b" / "2.jpg").write_bytes(b"2")
    later(tmp_path / "b")
    second = source_of(fn.readers.file, file_root=tmp_path)
    assert labels_of(second) == [0, 1, 1]
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "1.jpg").write_bytes(b"3")
    later(tmp_path)
    assert labels_of(source_of(fn.readers.file, file_root=tmp_path)) == [0, 1, 1, 2]
    assert (labels_of(first), labels_of(second)) == ([0, 1], [0, 1, 1])


def test_a_changed_list_is_read_anew(tmp_path):
    (tmp_path / "1.jpg").write_bytes(b"1")
    (tmp_path / "list").write_text("1.jpg 3\n")
    first = source_of(fn.readers.file, file_list=tmp_path / "list")
    assert source_of(fn.readers.file, file_list=tmp_path / "list") is first
    (tmp_path / "list").write_text("1.jpg 4\n")
    later(tmp_path / "list")
    assert labels_of(source_of(fn.readers.file, file_list=tmp_path / "list")) == [4]


def test_changed_cifar_is_read_anew(tmp_path):
    write_cifar(tmp_path / "data_batch_1.bin", 3)
    first = source_of(fn.readers.cifar10, file_root=tmp_path)
    assert source_of(fn.readers.cifar10, file_root=tmp_path) is first
    write_cifar(tmp_path / "data_batch_1.bin", 5)
    later(tmp_path / "data_batch_1.bin")
    assert labels_of(source_of(fn.readers.cifar10, file_root=tmp_path)) == [5]


def test_a_cifar_file_without_records(tmp_path):
    write_cifar(tmp_path / "data_batch_1.bin", 3)
    (tmp_path / "data_batch_2.bin").touch()
    assert labels_of(source_of(fn.readers.cifar10, file_root=tmp_path)) == [3]


def test_changed_mnist_is_read_anew(tmp_path):
    write_idx(tmp_path, [7])
    first = source_of(fn.readers.mnist, path=tmp_path)
    assert source_of(fn.readers.mnist, path=tmp_path) is first
    write_idx(tmp_path, [8, 9])
    later(tmp_path / "train-labels-idx1-ubyte")
    assert labels_of(source_of(fn.readers.mnist, path=tmp_path)) == [8, 9]


def test_an_lmdb_that_was_added_to_is_listed_anew_while_it_is_open(tmp_path):
    pytest.importorskip("lmdb")
    write_caffe2(tmp_path / "db", [(b"one", 1)])
    first = source_of(fn.readers.caffe2, path=tmp_path / "db")
    assert source_of(fn.readers.caffe2, path=tmp_path / "db") is first
    add = f"""
import lmdb
with lmdb.open({str(tmp_path / "db")!r}, map_size=1 << 40) as environment, environment.begin(write=True) as transaction:
    transaction.put(b"00000001", transaction.get(b"00000000"))
"""
    subprocess.run([sys.executable, "-c", add], check=True)  # LMDB lets no process open a database twice
    later(tmp_path / "db" / "data.mdb")
    second = source_of(fn.readers.caffe2, path=tmp_path / "db")
    assert labels_of(second) == [1, 1]
    with pytest.raises(SourceError, match="written to since it was opened"):
        labels_of(first)
    assert not first.reads_same_samples(second)


def test_an_lmdb_that_was_replaced_is_another_one(tmp_path):
    pytest.importorskip("lmdb")
    write_caffe2(tmp_path / "db", [(b"one", 1)])
    first = source_of(fn.readers.caffe2, path=tmp_path / "db")
    write_caffe2(tmp_path / "other", [(b"two", 2)])
    (tmp_path / "other" / "data.mdb").replace(tmp_path / "db" / "data.mdb")
    second = source_of(fn.readers.caffe2, path=tmp_path / "db")
    assert (labels_of(first), labels_of(second)) == ([1], [2])
    assert not first.reads_same_samples(second)


def test_lists_of_the_same_files_are_the_same_data(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.jpg").write_bytes(b"1")
    first = source_of(fn.readers.file, file_root=tmp_path)
    later(tmp_path)
    again = source_of(fn.readers.file, file_root=tmp_path)
    other = source_of(fn.readers.file, files=[str(tmp_path / "a" / "1.jpg")], labels=[1])
    assert first is not again
    assert first.reads_same_samples(again)
    assert not first.reads_same_samples(other)


def test_a_stamp_tells_states_of_a_path_apart(tmp_path):
    path = tmp_path / "file"
    missing = file_stamps(path)
    path.write_text("x")
    before = file_stamps(path)
    later(path)
    assert len({missing, before, file_stamps(path), file_stamps(path, path)}) == 4


def placed(placement):
    with Pipeline(batch_size=2, num_threads=2, placement=placement) as pipeline:
        data = fn.readers.arrays(np.zeros((4, 3, 3, 1), np.uint8), layout="HWC")
        pipeline.set_outputs(fn.crop_mirror_normalize(data, mirror=fn.random.coin_flip()))
    pipeline.run()
    pipeline.explain()
    pipeline.close()  # a thread may be reading ahead
    return pipeline.graph


def iterated(_):
    sharding = jax.NamedSharding(jax.make_mesh((2,), ("b",)), jax.P("b"))

    @data_iterator(output_map=["x"], reader_name="r", sharding=sharding)
    def define(shard_id, num_shards):
        data = fn.readers.arrays(np.arange(6), name="r", shard_id=shard_id, num_shards=num_shards)
        return fn.jax_function(lambda x: x + 1)(data)

    iterator = define(batch_size=2)
    next(iterator)
    iterator.get_state()
    iterator.close()
    return iterator._executable.plan.graph


def peeked(_):
    make = peekable_data_iterator(lambda: fn.readers.arrays(np.arange(6), name="r"), ["x"], reader_name="r")
    iterator = make(batch_size=2)
    next(iterator)
    iterator.peek_async()
    iterator.close()
    return iterator._executable.plan.graph


@pytest.mark.parametrize(
    ("make", "placement"),
    [(placed, "host"), (placed, "device"), (iterated, None), (peeked, None)],
    ids=["host", "device", "iterator", "peekable"],
)
def test_a_data_set_ends_with_what_reads_it_without_the_garbage_collector(make, placement):
    gc.collect()
    gc.disable()
    try:
        source = weakref.ref(make(placement).readers[0].operator.source)
        assert source() is None
    finally:
        gc.enable()


def test_arrays_that_are_mapped_are_compared_by_their_file(tmp_path):
    rows = np.arange(30, dtype=np.int64).reshape(10, 3)
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, rows)

    def mapped(name, part=slice(None)):
        return ArraySource([np.asarray(np.load(tmp_path / name, mmap_mode="r")[part])], [""])

    assert mapped("a.npy").reads_same_samples(mapped("a.npy"))
    assert mapped("a.npy", slice(2, 8)).reads_same_samples(mapped("a.npy", slice(2, 8)))
    assert not mapped("a.npy", slice(2, 8)).reads_same_samples(mapped("a.npy", slice(1, 7)))
    assert not mapped("a.npy").reads_same_samples(mapped("b.npy"))
    assert mapped("a.npy").reads_same_samples(ArraySource([rows], [""]))
    assert not mapped("a.npy").reads_same_samples(ArraySource([rows + 1], [""]))


def test_arrays_in_memory_are_compared_by_content():
    rows = np.float32([[1, np.nan], [2, 3]])
    assert ArraySource([rows], [""]).reads_same_samples(ArraySource([rows.copy()], [""]))
    assert not ArraySource([rows], [""]).reads_same_samples(ArraySource([rows + 1], [""]))
    large = np.zeros((3, 1 << 20), np.uint8)
    other = large.copy()
    assert ArraySource([large], [""]).reads_same_samples(ArraySource([other], [""]))
    other[-1, -1] = 1
    assert not ArraySource([large], [""]).reads_same_samples(ArraySource([other], [""]))


READERS = {
    "tfrecord": lambda path: fn.readers.tfrecord(
        path=path, features={"x": tfrecord.FixedLenFeature([1], tfrecord.int64, 0)}
    ),
    "webdataset": lambda path: fn.readers.webdataset(paths=path, ext="jpg"),
    "mxnet": lambda path: fn.readers.mxnet(path=path),
    "array_record": lambda path: fn.readers.array_record(paths=path),
    "parquet": lambda path: fn.readers.parquet(paths=path),
    "caffe2": lambda path: fn.readers.caffe2(path=path),
    "file": lambda path: fn.readers.file(file_root=path),
}

# Readers of files that list, annotate or index others.
LISTS = {
    "file list": lambda path: fn.readers.file(file_list=path),
    "video list": lambda path: fn.readers.video(file_list=path, sequence_length=1),
    "numpy list": lambda path: fn.readers.numpy(file_list=path),
    "fits list": lambda path: fn.readers.fits(file_list=path),
    "coco": lambda path: fn.readers.coco(file_root=".", annotations_file=path),
    "nemo": lambda path: fn.readers.nemo_asr(manifest_filepaths=[path]),
    "webdataset index": lambda path: fn.readers.webdataset(paths="a.tar", index_paths=path, ext="jpg"),
    "mxnet index": lambda path: fn.readers.mxnet(path="a.rec", index_path=path),
    "tfrecord index": lambda path: fn.readers.tfrecord(
        path="a", index_path=path, features={"x": tfrecord.FixedLenFeature([1], tfrecord.int64, 0)}
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_a_folder_that_may_not_be_entered_is_an_error_of_the_source(name, tmp_path, monkeypatch):
    stat, place = os.stat, str(tmp_path / "data")

    def refuse(path, *arguments, **options):
        if not isinstance(path, int) and os.fsdecode(path).startswith(place):
            raise PermissionError(errno.EACCES, "Permission denied", os.fsdecode(path))
        return stat(path, *arguments, **options)

    (tmp_path / "data").write_bytes(b"")
    (tmp_path / "data").chmod(0)
    monkeypatch.setattr(os, "stat", refuse)
    with Pipeline(batch_size=1), pytest.raises(SourceError):
        READERS[name](place)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", {**READERS, **LISTS})
def test_a_pipe_in_place_of_a_file_is_an_error(name, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    for file in ("a", "a.rec", "a.tar"):
        (tmp_path / file).write_bytes(bytes(1024))
    with Pipeline(batch_size=1), pytest.raises(SourceError) as caught:
        {**READERS, **LISTS}[name](str(tmp_path / "data"))
    if name in LISTS or name in ("tfrecord", "webdataset", "mxnet"):  # others look for a file or folder first
        assert "it is not a file, but" in str(caught.value)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["train-labels-idx1-ubyte", "train-images-idx3-ubyte", "data.mdb", "data_batch_1.bin"])
def test_a_pipe_in_a_data_set_is_an_error(name, tmp_path):
    write_idx(tmp_path, [1])
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    read = fn.readers.caffe2 if name == "data.mdb" else fn.readers.mnist
    with Pipeline(batch_size=1), pytest.raises(SourceError):
        fn.readers.cifar10(file_root=tmp_path) if "batch" in name else read(path=tmp_path)
