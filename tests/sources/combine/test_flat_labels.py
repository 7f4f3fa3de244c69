"""Flat labels: the same labels as scalars, for every reader that has labels."""

import gzip

import numpy as np
import pytest

from penstock import data_iterator, fn, types
from penstock.errors import ArgumentTypeError, DefinitionError
from penstock.sources.combine.flat_labels import FlatLabelSource
from penstock.sources.files.file_lists import files_from_paths
from penstock.sources.formats.array_source import ArraySource
from penstock.sources.formats.caffe.caffe2_source import write_caffe2
from penstock.sources.formats.caffe.caffe_source import write_caffe
from penstock.sources.formats.recordio_source import encode_record, write_recordio
from penstock.testing import ListSource, check_bad_samples, check_source
from tests.support.pipeline_runs import build_pipeline, run

LABELS = [3, 5, 4]


def files(folder):
    for label in LABELS:
        (folder / str(label)).mkdir()
        (folder / str(label) / "1.jpg").write_bytes(bytes([label]))
    return lambda **options: fn.readers.file(
        files=[folder / f"{label}/1.jpg" for label in LABELS], labels=LABELS, **options
    )


def class_folders(folder):
    files(folder)
    return lambda **options: fn.readers.file(file_root=folder, **options)


def caffe(folder):
    write_caffe(folder, [(b"a jpeg", label) for label in LABELS])
    return lambda **options: fn.readers.caffe(path=folder, **options)


def caffe_labels(folder):
    write_caffe(folder, [(b"a jpeg", label) for label in LABELS])
    return lambda **options: [None, fn.readers.caffe(path=folder, image_available=False, **options)]


def caffe2(folder):
    write_caffe2(folder, [(b"a jpeg", label) for label in LABELS])
    return lambda **options: fn.readers.caffe2(path=folder, **options)


def mxnet(folder):
    path = folder / "train.rec"
    index = write_recordio(path, [encode_record(b"a jpeg", [label]) for label in LABELS])
    return lambda **options: fn.readers.mxnet(path=path, index_path=index, **options)


def cifar10(folder):
    (folder / "data_batch_1.bin").write_bytes(b"".join(bytes([label]) + bytes(3072) for label in LABELS))
    return lambda **options: fn.readers.cifar10(file_root=folder, **options)


def mnist(folder):
    sizes = b"".join(extent.to_bytes(4, "big") for extent in (3, 28, 28))
    (folder / "train-images-idx3-ubyte").write_bytes(bytes([0, 0, 8, 3]) + sizes + bytes(3 * 784))
    labels = bytes([0, 0, 8, 1, 0, 0, 0, 3, *LABELS])
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    return lambda **options: fn.readers.mnist(path=folder, **options)


def video(folder):
    av = pytest.importorskip("av", reason="the extra video")
    paths = [folder / f"{label}.avi" for label in LABELS]
    for path in paths:
        with av.open(str(path), "w") as file:
            stream = file.add_stream("mjpeg", rate=25, width=32, height=16, pix_fmt="yuvj420p")
            file.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((16, 32, 3), np.uint8))))
            file.mux(stream.encode())
    return lambda **options: fn.readers.video(filenames=paths, labels=LABELS, sequence_length=1, **options)


READERS = [files, class_folders, caffe, caffe_labels, caffe2, mxnet, cifar10, mnist, video]


@pytest.mark.parametrize("reader", READERS)
def test_flat_labels_are_the_same_labels(tmp_path, reader):
    read = reader(tmp_path)
    (labels,) = run(lambda: read()[1], batch_size=3)
    (flat,) = run(lambda: read(flat_labels=True)[1], batch_size=3)
    assert labels.shape == (3, 1)
    assert flat.shape == (3,)
    assert flat.dtype == labels.dtype
    assert flat.tolist() == labels[:, 0].tolist()
    assert sorted(flat.tolist()) in (sorted(LABELS), [0, 1, 2])


def test_every_reader_with_an_argument_for_labels_is_covered():
    offered = {
        name
        for name in dir(fn.readers)
        if not name.startswith("_") and "flat_labels" in (getattr(fn.readers, name).__doc__ or "")
    }
    assert offered == {"file", "caffe", "caffe2", "mxnet", "cifar10", "mnist", "video", "video_resize"}
    with pytest.raises(ArgumentTypeError, match="flat_labels"):
        build_pipeline(lambda: fn.readers.numpy(files=["1.npy"], flat_labels=True), batch_size=1)


def test_an_iterator_has_labels_of_one_axis(tmp_path):
    read = class_folders(tmp_path)

    @data_iterator(output_map=["labels"], reader_name="reader")
    def labels():
        return read(flat_labels=True, random_shuffle=True, name="reader")[1]

    (batch,) = labels(batch_size=3, seed=1)
    assert batch["labels"].shape == (3,)
    assert sorted(np.asarray(batch["labels"]).tolist()) == [0, 1, 2]


def test_mixtures_and_subsets_of_flat_labels(tmp_path):
    read = class_folders(tmp_path)
    (mixed,) = run(lambda: fn.readers.mix(read(flat_labels=True), read(flat_labels=True))[1], batch_size=6)
    assert mixed.tolist() == [0, 1, 2, 0, 1, 2]
    (part,) = run(lambda: read(flat_labels=True, subset=[2, 0])[1], batch_size=2)
    assert part.tolist() == [2, 0]
    with pytest.raises(DefinitionError, match="value 1 of the samples is of another kind"):
        build_pipeline(lambda: fn.readers.mix(read(flat_labels=True), read())[1], batch_size=6)


def test_samples_without_a_single_label_are_refused(tmp_path):
    write_caffe(tmp_path / "caffe", [(b"a jpeg", 3)])
    write_caffe2(tmp_path / "caffe2", [(b"a jpeg", 3)])
    several = tmp_path / "several.rec"
    write_recordio(several, [encode_record(b"a jpeg", [1, 2])])
    for define, message in [
        (lambda: fn.readers.caffe(path=tmp_path / "caffe", label_available=False, flat_labels=True), "returns none"),
        (
            lambda: fn.readers.caffe2(
                path=tmp_path / "caffe2",
                label_type=types.LabelType.MULTI_LABEL_SPARSE,
                num_labels=4,
                flat_labels=True,
            )[1],
            "one label per sample",
        ),
        (lambda: fn.readers.mxnet(path=several, flat_labels=True)[1], "one label per sample"),
    ]:
        with pytest.raises(DefinitionError, match=message):
            build_pipeline(define, batch_size=1)


def test_the_wrapped_data_set_keeps_the_contract_of_sources():
    images, labels = np.arange(24).reshape(4, 6), np.arange(4)[:, None]
    source = FlatLabelSource(ArraySource([images, labels], ["C", ""]), 1)
    check_source(source)
    columns = [[np.ones(n) for n in (1, 2)], [np.array([7]), np.array([8])]]
    check_source(FlatLabelSource(ListSource(columns, shapes=[(None,), (1,)]), 1))
    assert source.reads_same_samples(FlatLabelSource(ArraySource([images, labels], ["C", ""]), 1))
    assert not source.reads_same_samples(FlatLabelSource(ArraySource([images, labels + 1], ["C", ""]), 1))


def test_bad_samples_are_named(tmp_path):
    (tmp_path / "1.jpg").write_bytes(b"a jpeg")
    listed = files_from_paths(str(tmp_path), ("1.jpg", "none.jpg"), (3, 5))
    check_bad_samples(FlatLabelSource(listed, 1), [1])
