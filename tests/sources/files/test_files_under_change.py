"""What lies among files and is none, what nobody may read, and what changes while it is read."""

import gzip
import logging
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from penstock.errors import PenstockWarning, SampleError, SourceError
from penstock.sources.files import file_source
from penstock.sources.files.class_folders import list_class_folders
from penstock.sources.files.file_lists import files_from_labeled_list, files_from_paths
from penstock.sources.formats import cifar10_files
from penstock.sources.formats.cifar10_files import open_cifar10
from penstock.sources.formats.idx_files import read_idx
from penstock.testing import check_source

JPG = ("*.jpg",)


def tree(root, *names):
    for name in names:
        path = root / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name)
    return str(root)


def read(source, *indices):
    return [bytes(sample) for sample in source.read(np.array(indices), [None, None])[0]]


def test_what_is_no_file_is_left_out_and_said(tmp_path, caplog, monkeypatch):
    root = tree(tmp_path, b"a/1.jpg", b"a/5.jpg", b"b/1.jpg")
    os.mkfifo(tmp_path / "a" / "2.jpg")
    (tmp_path / "a" / "3.jpg").symlink_to("/dev/zero")
    (tmp_path / "a" / "deep.jpg").mkdir()
    monkeypatch.chdir(tmp_path / "a")  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind("4.jpg")
        source = list_class_folders(root, JPG, (), False)
    check_source(source)
    assert read(source, 0, 1, 2) == [b"a/1.jpg", b"a/5.jpg", b"b/1.jpg"]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("3 entries below")
    assert "a/2.jpg" in record.getMessage()


def test_files_that_no_class_folder_holds_are_named(tmp_path):
    # A folder above the classes: only "extra" has files of its own.
    root = tree(tmp_path, b"train/cat/1.jpg", b"val/cat/1.jpg", b"extra/1.jpg", b"extra/2.jpg", b"extra/deep/x.txt")
    (tmp_path / "notes").mkdir()
    with pytest.warns(PenstockWarning) as caught:
        source = list_class_folders(root, JPG, (), False)
    (warning,) = caught
    text = str(warning.message)
    assert "has 2 files in 4 class folders; 3 of them, such as 'notes', without files" in text
    assert "files in deeper folders, such as 'train/cat', are not read" in text
    assert "fix: give the folder directly above the class folders" in text
    assert warning.filename == __file__
    assert source.summary() == "2 samples in 4 classes, 3 of them empty"
    # Without a warning: the user has chosen, or other files are in other places.
    assert list_class_folders(root, JPG, ("extra",), False).summary() == "2 samples in 1 class"
    tree(tmp_path, b"cat.jpg")
    with pytest.warns(PenstockWarning, match=r"2 files in 1 class folder; 1 file directly in it is not read"):
        list_class_folders(root, JPG, ("extra",), False)
    with pytest.raises(SourceError, match=r"there are files in 'train/cat', one level deeper"):
        list_class_folders(str(tmp_path / "train" / ".."), JPG, ("train",), False)


def test_a_wide_tree_is_listed_once(tmp_path, monkeypatch):
    root = tree(tmp_path, *[b"%d/%d/1.txt" % (label, part) for label in range(5) for part in range(20)], b"0/1.jpg")
    listed = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: [listed.append(path), scandir(path)][1])
    with pytest.warns(PenstockWarning, match="4 of them"):
        list_class_folders(root, JPG, (), False)
    assert len(listed) == 1 + 1 + 5 + 8


@pytest.mark.parametrize("target", ["itself.jpg", "nowhere.jpg"])
def test_a_link_to_itself_or_to_nowhere_is_one_bad_sample(target, tmp_path):
    root = tree(tmp_path, b"a/1.jpg", b"b/1.jpg")
    (tmp_path / "a" / "itself.jpg").symlink_to(target)
    (tmp_path / "loop").symlink_to("loop")
    source = list_class_folders(root, JPG, (), False)
    assert len(source) == 3
    assert source.read(np.array([0, 2]), [None, None])[1].ravel().tolist() == [0, 1]
    with pytest.raises(SampleError) as caught:
        read(source, 0, 1)
    path = str(tmp_path / "a" / "itself.jpg")
    assert str(caught.value).startswith(f"sample 1 ({path}) cannot be read: ")
    assert (caught.value.index, caught.value.source, caught.value.path) == (1, path, path)


@pytest.mark.parametrize("what", ["pipe", "device", "folder", "gone", "cut", "null"])
def test_a_listed_file_that_cannot_be_read_does_not_hang(what, tmp_path, monkeypatch):
    root = tree(tmp_path, b"1.jpg", b"2.jpg")
    path = tmp_path / "2.jpg"
    name = "2\0.jpg" if what == "null" else "2.jpg"
    source = files_from_paths(root, ("1.jpg", name), None)
    if what != "cut":
        path.unlink()
    if what == "pipe":
        os.mkfifo(path)
    elif what == "device":
        path.symlink_to("/dev/zero")
    elif what == "folder":
        path.mkdir()
    elif what == "cut":
        monkeypatch.setattr(os, "read", lambda file, size, real=os.read: real(file, min(size, 3)) if size > 2 else b"")
    with pytest.raises(
        SampleError, match=r"^sample 1 \(.*2.*\.jpg\) cannot be read: \w+" if what != "cut" else "shorter"
    ):
        read(source, 1)


def test_a_file_is_read_in_as_many_parts_as_it_comes_in(tmp_path, monkeypatch):
    root = tree(tmp_path, b"1.jpg")
    monkeypatch.setattr(os, "read", lambda file, size, real=os.read: real(file, min(size, 2)))
    assert read(files_from_paths(root, ("1.jpg",), None), 0) == [b"1.jpg"]


def test_names_that_are_no_text(tmp_path):
    names = [b"caf\xe9/\xff\xfe.jpg", b"\xf0\x9f\x90\x88/new\nline.JPG", b"\xe7\x8c\xab/ .jpg"]
    source = list_class_folders(tree(tmp_path, *names), JPG, (), False)
    check_source(source)
    assert sorted(read(source, 0, 1, 2)) == sorted(names)
    assert source.describe(0) == str(tmp_path / os.fsdecode(names[0]))
    (tmp_path / "list.txt").write_bytes(b"".join(name + b" 3\n" for name in (names[0], names[2])))
    assert read(files_from_labeled_list(str(tmp_path / "list.txt"), None), 0, 1) == [names[0], names[2]]


def test_no_permission_names_the_folder(tmp_path, monkeypatch):
    root = tree(tmp_path, b"a/1.jpg", b"b/1.jpg")

    def scandir(path, real=os.scandir):
        if os.fspath(path).endswith(b"b"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(file_source.os, "scandir", scandir)
    with pytest.raises(SourceError, match=r"b' cannot be read: Permission denied\n  fix:"):
        list_class_folders(root, JPG, (), False)
    assert len(list_class_folders(root, JPG, ("a",), False)) == 1
    (tmp_path / "list.txt").write_text("a/1.jpg 99999999999\n")
    with pytest.raises(SourceError, match=r"list.txt:1"):
        files_from_labeled_list(str(tmp_path / "list.txt"), None)
    with pytest.raises(SourceError, match=r"32 bits\n  given:    2147483648"):
        files_from_paths(root, ("a/1.jpg",), (2**31,))


def idx(shape, size):
    return bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes() + bytes(size)


GREEDY = """
import resource, sys
from pathlib import Path
from penstock.sources.formats.idx_files import read_idx
from penstock.errors import SourceError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_idx(Path(sys.argv[1]))
except SourceError as error:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10, error)
"""


@pytest.mark.parametrize(
    ("shape", "size", "message"),
    [
        ((10, 28, 28), 300 << 20, "longer than its header"),
        ((2**32 - 1,) * 4, 10, "cut short"),
        ((2**31,), 10, "cut short"),
    ],
)
def test_a_packed_file_takes_no_more_memory_than_its_header_says(shape, size, message, tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(idx(shape, size), 1))
    command = [sys.executable, "-c", GREEDY, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    taken, _, text = done.stdout.partition(" ")
    assert message in text
    assert int(taken) < 40, "MB"


@pytest.mark.parametrize("name", ["x", "x.gz"])
def test_an_idx_file_is_as_long_as_it_says(name, tmp_path):
    path = tmp_path / name

    def write(data):
        path.write_bytes(gzip.compress(data) if name == "x.gz" else data)

    write(idx((4, 3), 12))
    assert read_idx(path).shape == (4, 3)
    write(idx((4, 3), 13))
    with pytest.raises(SourceError, match=r"longer than its header says\n  given:    more\n  expected: 24 bytes"):
        read_idx(path)
    write(idx((4, 3), 11))
    with pytest.raises(SourceError, match=r"cut short\n  given:    (at most )?23 bytes\n  expected: 24 bytes"):
        read_idx(path)
    if name == "x.gz":
        data = bytearray(gzip.compress(idx((4, 3), 12)))
        data[-6] ^= 1  # the checksum
        path.write_bytes(data)
        with pytest.raises(SourceError, match="CRC"):
            read_idx(path)
    path.unlink()
    with pytest.raises(SourceError, match="No such file"):
        read_idx(path)


def test_a_cifar10_file_that_changes(tmp_path, monkeypatch):
    (tmp_path / "data_batch_1.bin").write_bytes(bytes(3073 * 2))
    monkeypatch.setattr(cifar10_files, "_count", lambda path: 3)
    with pytest.raises(SourceError, match=r"became shorter while it was read\n  given:    6146 bytes"):
        open_cifar10(str(tmp_path), "data_batch_")

    def fails(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(cifar10_files.np, "fromfile", fails)
    with pytest.raises(SourceError, match=r"data_batch_1.bin cannot be read: Permission denied"):
        open_cifar10(str(tmp_path), "data_batch_")
