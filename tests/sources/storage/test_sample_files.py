"""Tests of the files of cached samples: several processes fill one store."""

import os
from multiprocessing import get_context

import numpy as np

from penstock.core import Spec
from penstock.sources.storage.sample_files import FileStore

SPECS = (Spec(np.dtype(np.uint8), (None, 3)), Spec(np.dtype(np.int32), ()))
COUNT = 200


def opened(folder):
    return FileStore(str(folder), "key", None, SPECS)


def record(index):
    return np.full((index % 7, 3), index, np.uint8), np.array(index * 1000, np.int32)


def fill(folder, first):
    store = opened(folder)
    for index in range(first, COUNT, 2):
        store.add(np.array([index, 0]), [(index, 1), None], [record(index), record(0)])


def check_complete(store, indices):
    found = store.find(np.array(indices), [(index, 1) for index in indices])
    for index, pieces in zip(indices, found, strict=True):
        assert pieces is not None
        for piece, expected in zip(pieces, record(index), strict=True):
            np.testing.assert_array_equal(piece, expected)
            assert piece.dtype == expected.dtype


def test_processes_share_a_store(tmp_path):
    before = opened(tmp_path)
    processes = [get_context("spawn").Process(target=fill, args=(tmp_path, first)) for first in (0, 1)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    for store in (before, opened(tmp_path)):
        check_complete(store, range(COUNT))
        assert store.find(np.array([1, 2]), [(1, 2), None]) == [None, None]
        assert store.has(np.array([5, COUNT])).tolist() == [True, False]
        assert f"{COUNT} samples" in store.summary()


def test_a_store_of_another_user_can_be_read(tmp_path, monkeypatch):
    fill(tmp_path, 0)
    for path in tmp_path.iterdir():
        path.chmod(0o444)
    monkeypatch.setattr("os.open", _read_only(os.open))
    store = opened(tmp_path)
    check_complete(store, range(0, COUNT, 2))
    store.add(np.array([1]), [(1, 1)], [record(1)])
    assert not store.has(np.array([1])).any()


def _read_only(real):
    """Return `os.open` for a file system that is read-only, also for root, whom permissions do not stop."""

    def open_(path, flags, *mode):
        if flags & 3:
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *mode)

    return open_


def test_a_full_disk_ends_the_filling(tmp_path, monkeypatch, caplog):
    store = opened(tmp_path)
    fill_one = (np.array([0]), [(0, 1)], [record(0)])

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("penstock.sources.storage.sample_files.pwrite", full)
        store.add(*fill_one)
    assert "not stored" in caplog.text
    store.add(*fill_one)
    assert store.find(fill_one[0], fill_one[1]) == [None]
