"""The limit on what is read for one sample: looked at before anything is read, in every kind of data set."""

import io
import os
import tarfile

import numpy as np
import pytest
from pipeline_runs import run

from penstock import data_iterator, fn, types
from penstock import tfrecord as tfrec
from penstock.core.positional_io import pread
from penstock.errors import ResourceError, SampleError, UsageError
from penstock.sources.formats.caffe.caffe_source import write_caffe
from penstock.sources.formats.recordio_source import encode_record, write_recordio
from penstock.sources.formats.tfrecord.tfrecord_source import write_tfrecord
from penstock.sources.storage import local_bytes, random_access_file
from penstock.sources.storage.sample_limit import check_sample_size, max_sample_size

HUGE = 40 * 10**9
NAME = "PENSTOCK_MAX_SAMPLE_SIZE"


def sparse(path, size=HUGE, head=b""):
    path.write_bytes(head)
    os.truncate(path, size)
    return path


@pytest.fixture(autouse=True)
def nothing_large_is_read(monkeypatch):
    """Reading, or taking memory for, more than a gigabyte fails at once."""
    read, empty = os.read, np.empty

    def check(size):
        assert np.prod(size) < 10**9, "memory is taken before the size is looked at"

    monkeypatch.setattr(os, "read", lambda file, size: (check(size), read(file, size))[1])
    for module in (local_bytes, random_access_file):
        monkeypatch.setattr(module, "pread", lambda file, size, at: (check(size), pread(file, size, at))[1])
    monkeypatch.setattr(np, "empty", lambda shape, *more, **options: (check(shape), empty(shape, *more, **options))[1])


@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
def test_a_sparse_file_is_not_read(on_error, tmp_path):
    paths = [tmp_path / "good.jpg", sparse(tmp_path / "huge.jpg")]
    paths[0].write_bytes(bytes(4))

    def definition():
        return fn.pad(fn.readers.file(files=paths, name="r")[0], axes=[0], shape=[4])

    names = ["x", "valid"] if on_error == "skip" else ["x"]
    iterator = data_iterator(definition, names, reader_name="r", on_error=on_error)(batch_size=1, exec_async=False)
    assert next(iterator)["x"].shape == (1, 4)
    with pytest.raises(ResourceError, match=rf"huge.jpg(.|\n)*{HUGE} bytes(.|\n)*{NAME}=40GB(.|\n)*readers.file"):
        next(iterator)
    assert not any(iterator.stats().get("bad samples", {}).values())


def webdataset(folder):
    path = folder / "train.tar"
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        info = tarfile.TarInfo("1.jpg")
        info.size = 4
        archive.addfile(info, io.BytesIO(b"good"))
    info = tarfile.TarInfo("2.jpg")
    info.size = HUGE
    head = path.read_bytes()[:1024] + info.tobuf(tarfile.GNU_FORMAT)
    sparse(path, len(head) + HUGE + 1024, head)
    return lambda: fn.readers.webdataset(paths=str(path), ext=["jpg"], dtypes=[types.UINT8], subset=[1])


def io_file_read(folder):
    path = sparse(folder / "huge.jpg")
    return lambda: fn.io.file.read(np.frombuffer(str(path).encode(), np.uint8))


def sequence(folder):
    (folder / "one").mkdir()
    sparse(folder / "one" / "1.png")
    return lambda: fn.readers.sequence(file_root=folder, sequence_length=1)


@pytest.mark.parametrize("kind", [webdataset, io_file_read, sequence])
def test_readers_of_sparse_data(kind, tmp_path):
    with pytest.raises(ResourceError, match=r"(train.tar at byte 1536|huge.jpg|1.png) is too large(.|\n)*40000000000"):
        run(kind(tmp_path), batch_size=1)


def tfrecords(folder):
    write_tfrecord(folder / "a", [b"", b"\x7a\xb8\x17" + bytes(3000)])  # a field that nobody reads
    index = folder / "a.idx"
    index.write_text("0 16\n16 3019\n")
    feature = {"x": tfrec.FixedLenFeature((), tfrec.string, "")}
    return lambda: fn.readers.tfrecord(path=str(folder / "a"), index_path=str(index), features=feature, subset=[1])["x"]


def recordio(folder):
    records = [encode_record(bytes(size), [1.0]) for size in (4, 3000)]
    index = write_recordio(folder / "a.rec", records)
    return lambda: fn.readers.mxnet(path=str(folder / "a.rec"), index_path=index, subset=[1])


def lmdb(folder):
    pytest.importorskip("lmdb")
    write_caffe(folder / "lmdb", [(b"one", 1), (bytes(3000), 2)])
    return lambda: fn.readers.caffe(path=str(folder / "lmdb"), subset=[1])


@pytest.mark.parametrize("kind", [tfrecords, recordio, lmdb])
def test_records(kind, tmp_path, monkeypatch):
    build = kind(tmp_path)
    run(build, batch_size=1)
    monkeypatch.setenv(NAME, "2K")
    with pytest.raises(ResourceError, match=r"too large to be read for one sample\n  given:    30\d\d bytes"):
        run(build, batch_size=1)


def npy(path, shape, size=None, dtype="<f4"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    head = file.getvalue()
    values = np.arange(np.prod(shape) if size is None else 0, dtype=dtype).tobytes()
    return sparse(path, len(head) + len(values) if size is None else size, head + values)


def test_large_arrays_stay_readable(tmp_path, monkeypatch):
    monkeypatch.setenv(NAME, "20K")
    expected = np.arange(30_000, dtype=np.float32)
    path = npy(tmp_path / "1.npy", expected.shape)
    (arrays,) = run(lambda: fn.readers.numpy(files=[path]), batch_size=1)
    assert np.array_equal(arrays[0], expected)
    (part,) = run(lambda: fn.readers.numpy(files=[path], roi_start=29_000, roi_end=29_002), batch_size=1)
    assert part[0].tolist() == [29_000, 29_001]


def test_of_an_array_no_more_is_read_than_its_header_announces(tmp_path):
    path = npy(tmp_path / "1.npy", (3,), HUGE)
    (arrays,) = run(lambda: fn.readers.numpy(files=[path]), batch_size=1)
    assert arrays[0].shape == (3,)
    good, cut, other = npy(tmp_path / "2.npy", (2,)), npy(tmp_path / "3.npy", (HUGE,), HUGE), sparse(tmp_path / "4.npy")
    for bad, said in ((cut, "cut short"), (other, "begins with")):
        with pytest.raises(SampleError, match=said) as raised:
            run(lambda bad=bad: fn.readers.numpy(files=[good, bad], subset=[1]), batch_size=1)
        assert raised.value.path == str(bad)


def test_a_header_in_memory_announces_too_much(tmp_path):
    data = np.frombuffer(npy(tmp_path / "1.npy", (10**12,), 200).read_bytes(), np.uint8)
    with pytest.raises(SampleError, match=f"cut short: .* of {4 * 10**12} bytes"):
        run(lambda: fn.decoders.numpy(fn.constant(data), dtype=types.FLOAT, ndim=1), batch_size=1)


@pytest.mark.parametrize("decoder", ["decoders.audio", "readers.nemo_asr"])
def test_sound_that_announces_too_much(decoder, tmp_path, monkeypatch):
    soundfile = pytest.importorskip("soundfile")
    path, manifest = tmp_path / "1.wav", tmp_path / "list"
    soundfile.write(path, np.zeros(3000, np.float32), 8000)
    manifest.write_text(f'{{"audio_filepath": "{path}", "duration": 0.375, "text": ""}}\n')
    data = np.frombuffer(path.read_bytes(), np.uint8)
    build = {
        "decoders.audio": lambda: fn.decoders.audio(fn.constant(data)),
        "readers.nemo_asr": lambda: fn.readers.nemo_asr(manifest_filepaths=[str(manifest)]),
    }[decoder]
    monkeypatch.setenv(NAME, "8K")
    with pytest.raises(SampleError, match="its header announces 12000 bytes"):
        run(build, batch_size=1)


def test_the_limit(monkeypatch):
    assert max_sample_size() == 1 << 31
    check_sample_size(1 << 31, b"a")
    with pytest.raises(ResourceError, match=r"^a is too large"):
        check_sample_size((1 << 31) + 1, b"a")
    monkeypatch.setenv(NAME, "1.5GB")
    assert max_sample_size() == 1_500_000_000
    monkeypatch.setenv(NAME, "much")
    with pytest.raises(UsageError, match=NAME):
        max_sample_size()


def test_what_is_no_sample_has_no_limit(tmp_path, monkeypatch):
    monkeypatch.setenv(NAME, "2")
    (tmp_path / "a").write_bytes(bytes(4))
    assert len(local_bytes.read_file(str(tmp_path / "a"))) == 4
