"""Digests of samples tell data sets apart that agree in names, labels, sizes and times of modification."""

import os
import shutil
import tarfile

import numpy as np
import pytest

from penstock import Pipeline, fn
from penstock.graph.ir.operator import Reader
from penstock.sources import sample_digest as module
from penstock.sources.combine.concatenation import ConcatMember, ConcatSource
from penstock.sources.combine.subset import make_subset
from penstock.sources.files.file_source import FileSource
from penstock.sources.files.sequence_source import SequenceSource
from penstock.sources.formats.array_source import ArraySource
from penstock.sources.formats.caffe.caffe_source import write_caffe
from penstock.sources.sample_digest import file_digests, sample_digest

COUNT, SIZE = 40, 20_000
NAMES = [f"{number:02}.raw" for number in range(COUNT)]


def samples(value):
    """Return samples that agree in their headers and trailers of 5 kB."""
    framed = [np.zeros(SIZE, np.uint8) for _ in range(COUNT)]
    for number, sample in enumerate(framed):
        sample[5000:-5000] = number + value
    return [sample.tobytes() for sample in framed]


def write_files(folder, value):
    folder.mkdir()
    for name, data in zip(NAMES, samples(value), strict=True):
        (folder / name).write_bytes(data)
        os.utime(folder / name, (0, 0))
    return folder


def source_of(reader, **arguments):
    with Pipeline(batch_size=1) as pipeline:
        results = reader(**arguments)
        pipeline.set_outputs(*(results if isinstance(results, list) else [results]))
    return next(node.operator.source for node in pipeline.graph.nodes if isinstance(node.operator, Reader))


def files(folder, value):
    return FileSource(str(write_files(folder, value)), [name.encode() for name in NAMES], [0] * COUNT)


def sequences(folder, value):
    folder.mkdir()
    write_files(folder / "clip", value)
    return SequenceSource(str(folder), ("*.raw",), 3, 1, 1)


def tar(folder, value):
    write_files(folder, value)
    with tarfile.open(folder / "one.tar", "w") as archive:
        for name in NAMES:
            archive.add(folder / name, name)
    return source_of(fn.readers.webdataset, paths=[str(folder / "one.tar")], ext=["raw"])


def lmdb(folder, value):
    pytest.importorskip("lmdb")
    write_caffe(folder, [(data, 0) for data in samples(value)])
    return source_of(fn.readers.caffe, path=str(folder))


@pytest.mark.parametrize("make", [files, sequences, tar, lmdb])
def test_digests_follow_the_content_and_not_the_place(make, tmp_path):
    one, other = make(tmp_path / "one", 1), make(tmp_path / "other", 2)
    assert sample_digest(one) != sample_digest(other)
    (tmp_path / "elsewhere").mkdir()
    assert sample_digest(make(tmp_path / "elsewhere" / "copy", 1)) == sample_digest(one)


def test_the_samples_are_spread_evenly(tmp_path):
    source = files(tmp_path / "one", 1)
    before = sample_digest(source)
    for number in range(COUNT):
        path = tmp_path / "one" / NAMES[number]
        data = path.read_bytes()
        path.write_bytes(data[:10_000] + b"changed" + data[10_007:])
        assert (sample_digest(source) != before) == (number in [n * 39 // 15 for n in range(16)])
        path.write_bytes(data)


def test_a_part_of_a_data_set_has_its_own_digest(tmp_path):
    source = files(tmp_path / "one", 1)
    assert sample_digest(make_subset(source, range(1, COUNT))) != sample_digest(source)


def test_the_digest_reads_a_bounded_part(tmp_path, monkeypatch):
    extents, fetch = [], module.fetch_cached
    monkeypatch.setattr(module, "fetch_cached", lambda extent: extents.append(extent) or fetch(extent))
    data = tmp_path / "data"
    with data.open("wb") as file:
        file.truncate(10**12)  # sparse

    class Endless(ArraySource):
        def __len__(self):
            return 10**12

        def path(self, index):
            assert 0 <= index < 10**12
            return str(data)

    source = Endless([np.zeros(1)], [""])
    sample_digest(source)
    assert len(extents) == 48
    assert {extent.stop - extent.start for extent in extents} == {4096}
    assert (extents[0].start, extents[-1].stop) == (0, 10**12)


def test_samples_that_cannot_be_read_count_with_their_paths(tmp_path):
    source = files(tmp_path / "one", 1)
    before = sample_digest(source)
    (tmp_path / "one" / NAMES[0]).unlink()
    (tmp_path / "one" / NAMES[-1]).unlink()
    (tmp_path / "one" / NAMES[-1]).mkdir()
    damaged = sample_digest(source)
    assert damaged != before
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    names = [name.encode() for name in NAMES]
    assert sample_digest(FileSource(str(tmp_path / "other"), names, [0] * COUNT)) != damaged
    assert sample_digest(FileSource("", [b"\xff\0/a", b"\xff"], [0, 1])) != damaged


def test_empty_files(tmp_path):
    (tmp_path / "empty").touch()
    empty = FileSource(str(tmp_path), [b"empty"], [0])
    assert sample_digest(empty) == sample_digest(empty)


def test_samples_that_are_not_in_files_count_with_their_values(tmp_path):
    path = write_files(tmp_path / "one", 1)
    named = FileSource(str(path), [name.encode() for name in NAMES[:2]], [0, 0])

    def mixed(value):
        arrays = ArraySource([np.full((3, 5), value, np.uint8), np.zeros((3, 1), np.int32)], ["", ""])
        members = [ConcatMember(source, (1,), "part") for source in (named, arrays)]
        arrays_first = ConcatMember(arrays, (0,), "arrays")
        return ConcatSource(members), ConcatSource([arrays_first])

    assert sample_digest(mixed(1)[0]) == sample_digest(mixed(2)[0])  # they agree in the values that are used
    assert sample_digest(mixed(1)[1]) != sample_digest(mixed(2)[1])


def test_files_of_two_copies(tmp_path):
    one, same, other = (files(tmp_path / name, value) for name, value in (("one", 0), ("same", 0), ("other", 1)))
    digests = file_digests(one)
    assert len(digests) == 16
    assert file_digests(same) == digests
    changed = file_digests(other)
    assert changed.keys() == digests.keys()
    assert not changed.items() & digests.items()
    (tmp_path / "same" / NAMES[0]).unlink()  # whose rows another process computes
    digests.pop(0)
    assert file_digests(same) == digests
    assert file_digests(ArraySource([np.arange(9)], [""])) == {}
