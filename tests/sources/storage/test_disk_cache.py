"""Objects that are kept on a local disk."""

import logging
import sys

import numpy as np
import pytest

from penstock.errors import MissingExtraError, UsageError
from penstock.sources.files.class_folders import list_class_folders
from penstock.sources.files.file_lists import files_from_paths
from penstock.sources.storage.byte_range import ByteRange
from penstock.sources.storage.disk_cache import DiskCache, configured_cache, fetch_cached, lookup_many, uncached
from penstock.sources.storage.object_store import list_prefix
from penstock.sources.storage.store_requests import map_concurrently


def data(count, value=7):
    return np.full(count, value, np.uint8)


def entries(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_CACHE_SIZE", "1MB")
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("listed", [True, False])
def test_what_was_fetched_is_not_fetched_again_unless_it_changed(listed, s3, kept, monkeypatch):
    s3.put("c/a.jpg", b"first")

    def source():
        return (
            list_class_folders(s3.url, ("*.jpg",), (), False)
            if listed
            else files_from_paths("", (s3.url + "/c/a.jpg",), None)
        )

    assert source().content(0).tobytes() == b"first"
    again = source()
    s3.proxy.forget()
    assert again.content(0).tobytes() == b"first"
    assert len(s3.proxy.asked) == (0 if listed else 1)  # whether it is still the same
    s3.put("c/a.jpg", b"second")
    assert source().content(0).tobytes() == b"second"
    assert len(entries(kept)) == 1


def test_fetched_ranges_are_stored(s3, kept):
    for name in "abc":
        s3.put(f"c/{name}.jpg", name.encode() * 2)
    extents = [ByteRange(found.path, etag=found.etag) for found in list_prefix(s3.url + "/c")[1]]
    assert [data.tobytes() for data in map_concurrently(fetch_cached, extents[:2])] == [b"aa", b"bb"]
    s3.proxy.forget()
    assert [data is not None for data in lookup_many(extents)] == [True, True, False]
    assert [data.tobytes() for data in map(fetch_cached, extents)] == [b"aa", b"bb", b"cc"]
    assert len(s3.proxy.asked) == 1


DAMAGES = {
    "cut": lambda content: content[:-1],
    "changed": lambda content: content[:-1] + b"?",
    "empty": lambda content: b"",
    "something else": lambda content: b"?" + content[1:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_entry_is_none(damage, tmp_path):
    cache, extent = DiskCache(str(tmp_path), 10**6), ByteRange("s3://b/a", 3, 10)
    cache.store(extent, data(7), '"tag"')
    found = cache.find(extent)
    assert (found[0].tolist(), found[1]) == ([7] * 7, '"tag"')
    assert cache.find(ByteRange("s3://b/a", 3, 11)) is None
    (entry,) = entries(tmp_path)
    entry.write_bytes(damage(entry.read_bytes()))
    assert cache.find(extent) is None
    cache.store(extent, data(7, 8), "")
    assert cache.find(extent)[0].tolist() == [8] * 7


def test_what_is_kept_is_not_fetched_ahead(kept):
    here, other, unknown = (
        ByteRange(f"s3://b/{name}", etag=tag) for name, tag in (("a", '"1"'), ("b", '"1"'), ("c", ""))
    )
    changed = ByteRange("s3://b/a", etag='"2"')
    for extent in (here, unknown):
        configured_cache().store(extent, data(5), '"1"')
    assert uncached([here, other, unknown]) == [other, unknown]
    assert [each is not None for each in lookup_many([here, other, unknown, changed])] == [True, False, False, False]


def test_the_size_holds_for_several_processes(tmp_path):
    size = 100_000
    caches = [DiskCache(str(tmp_path), size) for _ in range(2)]
    for number in range(200):
        caches[number % 2].store(ByteRange(f"s3://b/{number}"), data(3000), "tag")
        assert sum(path.stat().st_size for path in entries(tmp_path)) <= size * (1 + 2 / 16) + 2 * 3100
    assert sum(path.stat().st_size for path in entries(tmp_path)) > size // 2
    caches[0].store(ByteRange("s3://b/large"), data(size // 2), "tag")
    assert caches[0].find(ByteRange("s3://b/large")) is None


def test_without_its_library_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xxhash", None)
    with pytest.raises(MissingExtraError, match=r"penstock\[stores\]"):
        DiskCache(str(tmp_path), 10**6)


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    cache = DiskCache(str(tmp_path / "file"), 10**6)
    with caplog.at_level(logging.WARNING, "penstock"):
        cache.store(ByteRange("s3://b/a"), data(7), "tag")
        cache.store(ByteRange("s3://b/b"), data(7), "tag")
    assert [record.message for record in caplog.records] == [
        f"objects are not kept in {tmp_path / 'file'} any more: Not a directory"
    ]
    assert cache.find(ByteRange("s3://b/a")) is None


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch, caplog):
    cache = DiskCache(str(tmp_path), 10**6)
    monkeypatch.setattr("pathlib.Path.replace", lambda *paths: (_ for _ in ()).throw(OSError(28, "No space left")))
    cache.store(ByteRange("s3://b/a"), data(7), "tag")
    assert "No space left" in caplog.text
    assert entries(tmp_path) == []


def test_the_size_of_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path))
    for said, expected in {"50GB": 50 * 10**9, "1.5 mb": 1_500_000, "12": 12}.items():
        monkeypatch.setenv("PENSTOCK_CACHE_SIZE", said)
        assert configured_cache()._size == expected
    monkeypatch.setenv("PENSTOCK_CACHE_SIZE", "0")
    assert configured_cache() is None
    monkeypatch.setenv("PENSTOCK_CACHE_SIZE", "plenty")
    with pytest.raises(UsageError, match="PENSTOCK_CACHE_SIZE"):
        configured_cache()
