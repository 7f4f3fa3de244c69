"""Sources of all formats deliver the same samples in a worker process, which opens their files again."""

import pickle

import pytest
from damaged_formats import CONTAINERS
from read_source import check_worker_process

from penstock.errors import SourceError
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
