"""Machine code on disk is found again, whole, and does not grow without bound."""

import logging
import os
from pathlib import Path

import pytest

from penstock.native import code_cache


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Two folders, as they are looked into."""
    monkeypatch.setattr(code_cache, "folders", lambda: [tmp_path / "a", tmp_path / "b"])
    monkeypatch.setattr(code_cache, "_said", set())
    return tmp_path


def test_where_code_lies(monkeypatch):
    own = Path(code_cache.__file__).parent / "__pycache__" / "code"
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    assert code_cache.folders() == [Path("/home/me/.cache/penstock"), own]
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert code_cache.folders() == [Path("/xdg/penstock"), own]
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/numba")
    assert code_cache.folders() == [Path("/numba/penstock")]


def test_what_is_written_is_read(place):
    assert code_cache.read("x") is None
    code_cache.write("x", b"code")
    code_cache.write("x", b"more code")
    assert code_cache.read("x") == b"more code"
    assert [path.name for path in place.rglob("*")] == ["a", "x.code"]


@pytest.mark.parametrize("content", [b"", b"short", bytes(100)])
def test_damaged_code_is_not_read(place, content):
    code_cache.write("x", b"code")
    file = place / "a" / "x.code"
    flipped = bytearray(file.read_bytes())
    flipped[-1] ^= 1
    for damaged in (content, flipped, file.read_bytes()[:-1]):
        file.write_bytes(damaged)
        assert code_cache.read("x") is None


def test_the_next_folder_is_taken_where_one_cannot_be_written(place):
    (place / "a").write_text("no folder")
    code_cache.write("x", b"code")
    assert (place / "b" / "x.code").exists()
    assert code_cache.read("x") == b"code"


def test_no_folder_is_no_error_and_said_once(place, caplog):
    (place / "a").write_text("no folder")
    (place / "b").write_text("no folder")
    with caplog.at_level(logging.WARNING, "penstock"):
        code_cache.write("x", b"code")
        code_cache.write("y", b"code")
    assert code_cache.read("x") is None
    (record,) = caplog.records
    assert "set NUMBA_CACHE_DIR" in record.getMessage()


def test_a_write_that_fails_leaves_nothing(place, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    code_cache.write("x", b"code")
    assert [path for path in place.rglob("*") if path.is_file()] == []


def test_what_is_not_used_goes_first(place, monkeypatch):
    monkeypatch.setattr(code_cache, "LIMIT", 3)
    for age, name in enumerate("edcba"):
        code_cache.write(name, b"code")
        os.utime(place / "a" / f"{name}.code", (1000 + age, 1000 + age))
    assert code_cache.read("c") == b"code"
    code_cache.write("new", b"code")
    assert sorted(path.stem for path in (place / "a").iterdir()) == ["a", "c", "new"]
