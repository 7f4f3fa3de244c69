"""Sources of all formats deliver the same samples in a worker process, which opens their files again."""

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import pytest
from damaged_formats import CONTAINERS
from read_source import read_pickled_source, read_source

from penstock.errors import SourceError
from penstock.sources.external.processes.task_pickling import pickled
from penstock.sources.storage.random_access_file import LocalFile


def test_sources_of_all_formats(tmp_path):
    sources = {}
    for name, kind in CONTAINERS.items():
        folder = tmp_path / name
        folder.mkdir()
        kind.write(folder)
        sources[name] = kind.read(folder)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as worker:
        pickles = {name: pickled(source, name).payload for name, source in sources.items()}
        read = {name: worker.submit(read_pickled_source, data) for name, data in pickles.items()}
        for name, source in sources.items():
            assert read[name].result() == read_source(source), name


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
