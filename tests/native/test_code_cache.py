"""Machine code on disk is found again, whole, and does not grow without bound."""

import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from penstock.native import code_cache


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Two folders, as they are looked into."""
    monkeypatch.setattr(code_cache, "code_folders", lambda: [tmp_path / "a", tmp_path / "b"])
    monkeypatch.setattr(code_cache, "_warned", set())
    return tmp_path


def test_where_code_lies(monkeypatch):
    own = Path(code_cache.__file__).parent / "__pycache__" / "code"
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    assert code_cache.code_folders() == [Path("/home/me/.cache/penstock"), own]
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert code_cache.code_folders() == [Path("/xdg/penstock"), own]
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/numba")
    assert code_cache.code_folders() == [Path("/numba/penstock")]


def test_what_is_written_is_read(place):
    assert code_cache.read_code("x") is None
    code_cache.write_code("x", b"code")
    code_cache.write_code("x", b"more code")
    assert code_cache.read_code("x") == b"more code"
    assert [path.name for path in place.rglob("*")] == ["a", "x.code"]


@pytest.mark.parametrize("content", [b"", b"short", bytes(100)])
def test_damaged_code_is_not_read(place, content):
    code_cache.write_code("x", b"code")
    file = place / "a" / "x.code"
    flipped = bytearray(file.read_bytes())
    flipped[-1] ^= 1
    for damaged in (content, flipped, file.read_bytes()[:-1]):
        file.write_bytes(damaged)
        assert code_cache.read_code("x") is None


def test_the_next_folder_is_taken_where_one_cannot_be_written(place):
    (place / "a").write_text("no folder")
    code_cache.write_code("x", b"code")
    assert (place / "b" / "x.code").exists()
    assert code_cache.read_code("x") == b"code"


def test_no_folder_is_no_error_and_said_once(place, caplog):
    (place / "a").write_text("no folder")
    (place / "b").write_text("no folder")
    with caplog.at_level(logging.WARNING, "penstock"):
        code_cache.write_code("x", b"code")
        code_cache.write_code("y", b"code")
    assert code_cache.read_code("x") is None
    (record,) = caplog.records
    assert "set NUMBA_CACHE_DIR" in record.getMessage()


def test_a_write_that_fails_leaves_nothing(place, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    code_cache.write_code("x", b"code")
    assert [path for path in place.rglob("*") if path.is_file()] == []


def test_what_is_not_used_goes_first(place, monkeypatch):
    monkeypatch.setattr(code_cache, "LIMIT", 3)
    for age, name in enumerate("edcba"):
        code_cache.write_code(name, b"code")
        os.utime(place / "a" / f"{name}.code", (1000 + age, 1000 + age))
    assert code_cache.read_code("c") == b"code"
    code_cache.write_code("new", b"code")
    assert sorted(path.stem for path in (place / "a").iterdir()) == ["a", "c", "new"]


SOMEBODY = 12345
"""A user other than the one who runs the tests."""
needs_root = pytest.mark.skipif(getattr(os, "geteuid", lambda: -1)() != 0, reason="only root changes who owns a file")
needs_permissions = pytest.mark.skipif(os.name != "posix", reason="files have no such permissions on Windows")


@pytest.fixture
def kept(place):
    """The file of an entry, in a folder beside which there is no second one to fall back to."""
    (place / "b").write_text("no folder")
    code_cache.write_code("x", b"code")
    return place / "a" / "x.code"


def messages(caplog):
    return [record.getMessage() for record in caplog.records]


@needs_permissions
@pytest.mark.parametrize("mode", [0o020, 0o002, 0o1002])
@pytest.mark.parametrize("which", ["file", "folder"])
def test_code_that_others_can_write_is_not_read(kept, which, mode, caplog):
    path = kept if which == "file" else kept.parent
    path.chmod(0o700 | mode)
    assert [code_cache.read_code("x") for _ in range(3)] == [None] * 3
    (message,) = messages(caplog)
    assert f"neither loaded from {path}" in message
    assert f"chmod go-w {path}" in message
    path.chmod(0o700)
    assert code_cache.read_code("x") == b"code"


@needs_permissions
@pytest.mark.parametrize(("mode", "read"), [(0o777, None), (0o775, None), (0o1777, b"code"), (0o755, b"code")])
def test_a_folder_on_the_way_in_which_others_can_rename_is_not_trusted(tmp_path, mode, read, monkeypatch, caplog):
    open_to_all = tmp_path / "open"
    monkeypatch.setattr(code_cache, "code_folders", lambda: [open_to_all / "mine" / "penstock"])
    monkeypatch.setattr(code_cache, "_warned", set())
    code_cache.write_code("x", b"code")
    open_to_all.chmod(mode)
    assert code_cache.read_code("x") == read
    assert [f"from {open_to_all} " in message for message in messages(caplog)] == ([] if read else [True])


@needs_root
@pytest.mark.parametrize("which", ["x.code", ".", ".."])
def test_code_of_another_user_is_not_read(place, kept, which, caplog):
    path = Path(os.path.normpath(kept.parent / which))
    os.chown(path, SOMEBODY, SOMEBODY)
    assert code_cache.read_code("x") is None
    (message,) = messages(caplog)
    assert f"neither loaded from {path}" in message
    assert f"it belongs to user {SOMEBODY}" in message


@needs_root
def test_code_of_root_is_read_by_other_users(shared):
    folder = shared / "penstock"
    folder.mkdir()
    folder.chmod(0o755)
    code_cache.write_code_to(folder, "x", b"code").chmod(0o644)
    assert as_user(SOMEBODY, folder) == "b'code'"
    os.chown(folder, SOMEBODY, SOMEBODY)
    assert as_user(SOMEBODY, folder) == "b'code'"
    assert as_user(SOMEBODY + 1, folder) == "None"


@pytest.fixture
def shared():
    """A folder that every user may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def as_user(user, folder):
    """What a process of a user reads. Modules are loaded before, since the user may not enter their folders."""
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom penstock.native import code_cache\n"
        "code_cache.code_folders = lambda: [Path(sys.argv[2])]\n"
        "os.setgroups([])\nos.setgid(int(sys.argv[1]))\nos.setuid(int(sys.argv[1]))\nprint(code_cache.read_code('x'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(user), str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@needs_permissions
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_not_read(kept, kind):
    data = kept.read_bytes()
    kept.unlink()
    if kind == "link":
        elsewhere = kept.parent.parent / "elsewhere"
        elsewhere.write_bytes(data)
        kept.symlink_to(elsewhere)
    elif kind == "pipe":
        os.mkfifo(kept, 0o600)
    else:
        kept.mkdir()
    assert code_cache.read_code("x") is None


@needs_permissions
def test_a_link_to_a_folder_counts_as_that_folder(place):
    (place / "real").mkdir(mode=0o700)
    (place / "a").symlink_to("real")
    code_cache.write_code("x", b"code")
    assert (place / "real" / "x.code").exists()
    assert code_cache.read_code("x") == b"code"
    (place / "real").chmod(0o777)
    assert code_cache.read_code("x") is None


@needs_permissions
def test_nothing_is_kept_where_others_can_write(place, caplog):
    (place / "a").mkdir()
    (place / "a").chmod(0o777)
    for name in "xy":
        code_cache.write_code(name, b"code")
        assert code_cache.read_code(name) == b"code"
    assert sorted(path.name for path in place.rglob("*.code")) == ["x.code", "y.code"]
    assert {path.parent.name for path in place.rglob("*.code")} == {"b"}
    (message,) = messages(caplog)
    assert "others can write to it (mode 0777)" in message


@needs_permissions
def test_folders_are_made_for_the_user_alone(tmp_path, monkeypatch):
    folder = tmp_path / "cache" / "penstock"
    monkeypatch.setattr(code_cache, "code_folders", lambda: [folder])
    before = os.umask(0)
    try:
        code_cache.write_code("x", b"code")
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in (folder.parent, folder)}
    assert modes == {0o700}
    assert code_cache.read_code("x") == b"code"
