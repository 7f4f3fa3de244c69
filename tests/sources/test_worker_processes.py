"""Sources of all formats deliver the same samples in a worker process, which opens their files again."""

import pickle

import pytest
from damaged_formats import CONTAINERS
from read_source import check_worker_process

from penstock import data_iterator, fn
from penstock.errors import SourceError
from penstock.sources.formats.caffe.caffe2_source import write_caffe2
from penstock.sources.storage.random_access_file import LocalFile


def test_sources_of_all_formats(tmp_path):
    sources = {}
    for name, kind in CONTAINERS.items():
        folder = tmp_path / name
        folder.mkdir()
        kind.write(folder)
        sources[name] = kind.read(folder)
    check_worker_process(sources)


def test_files_that_change_before_another_process_opens_them(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    file = LocalFile(str(path))
    data = pickle.dumps(file)
    assert pickle.loads(data).pread(6, 0) == b"before"
    path.write_bytes(b"after")
    with pytest.raises(SourceError, match="has been written to since it was opened"):
        pickle.loads(data)
    path.unlink()
    with pytest.raises(SourceError, match="cannot be read"):
        pickle.loads(data)
    file.close()


@pytest.mark.slow
def test_a_database_that_changes_before_a_worker_process_opens_it(tmp_path):
    def write():
        write_caffe2(tmp_path, ((bytes([number]), number) for number in range(1, 9)))

    @data_iterator(prepare_first_batch=False)
    def labels():
        return {"label": fn.readers.caffe2(path=str(tmp_path))[1]}

    write()
    with labels(batch_size=4, num_processes=1) as iterator:
        write()
        with pytest.raises(SourceError, match=r"data.mdb' has been written to since it was opened"):
            next(iterator)
