"""Listing of class folders and of the files of a tree."""

import logging
import os
import re
import stat
from collections.abc import Callable, Hashable, Iterator, Sequence
from fnmatch import translate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.errors import SourceError, SourceNotFoundError
from penstock.sources.files.file_source import FileSource
from penstock.sources.storage.file_stamps import file_stamps
from penstock.sources.storage.object_store import is_remote, list_prefix, opening
from penstock.sources.storage.store_requests import map_or_raise

_log = logging.getLogger("penstock")

_Matcher = Callable[[bytes], bool]
# Name of a folder, and names and ETags of the files in it. Names are bytes, because they need not be valid UTF-8.
_Folder = tuple[bytes, list[tuple[bytes, str]]]


def list_class_folders(
    root: str, file_filters: tuple[str, ...], dir_filters: tuple[str, ...], case_sensitive: bool
) -> FileSource:
    """List the files of the folders directly below `root`, labeled with the number of their folder.

    Folders and files are sorted by the bytes of their names. Empty folders are numbered, too. Pipes, sockets and
    devices are skipped with a warning.

    Raises:
        SourceNotFoundError: `root` is not a folder.
        SourceError: No file matches, or a folder cannot be read.
    """
    wanted = _matcher(file_filters, case_sensitive=case_sensitive)
    (_, *folders), others = _tree(root, _matcher(dir_filters, case_sensitive=True), wanted)
    if others:
        _log.warning(
            "%d entries below %s are no files (pipes, sockets, devices) and are left out, such as %s",
            len(others), root, os.fsdecode(min(others)),
        )  # fmt: skip
    counts = [len(files) for _, files in folders]
    if not any(counts):
        raise SourceError(
            f"no files found in {root!r}",
            given=f"{len(folders)} sub-folders, filters {', '.join(file_filters)}",
            expected="one sub-folder per class, with files that match",
            fix="give the folder above the class folders, or file_filters that match",
        )
    labels = np.repeat(np.arange(len(folders), dtype=np.int32), counts)
    return _source(root, folders, labels, [os.fsdecode(name) for name, _ in folders])


def list_files(root: str, file_filter: str) -> FileSource:
    """List the files in a folder and in the folders directly below it, all labeled 0.

    Files in the folder come first, then those in its folders, both sorted by the bytes of their names.

    Raises:
        SourceNotFoundError: `root` is not a folder.
        SourceError: No file matches, or a folder cannot be read.
    """
    (own, *folders), _ = _tree(root, lambda _: True, _matcher((file_filter,), case_sensitive=True))
    # The slash counts: the files of "a-b" come before those of "a".
    tree = [own, *sorted(folders, key=lambda folder: folder[0] + b"/")]
    count = sum(len(files) for _, files in tree)
    if not count:
        raise SourceError(
            f"no files found in {root!r}",
            given=f"{len(folders)} sub-folders, the filter {file_filter!r}",
            fix="give the folder with the files, or one above it, and a file_filter that matches",
        )
    return _source(root, tree, np.zeros(count, np.int32))


def _source(
    root: str, folders: Sequence[_Folder], labels: NDArray[np.int32], classes: Sequence[str] = ()
) -> FileSource:
    prefixed = [(folder + b"/" if folder else b"", files) for folder, files in folders]
    names = [prefix + name for prefix, files in prefixed for name, _ in files]
    tags = [tag for _, files in folders for _, tag in files] if is_remote(root) else None
    return FileSource(root, names, labels, tags, classes)


def _tree(root: str, wanted_folder: _Matcher, wanted: _Matcher) -> tuple[list[_Folder], list[bytes]]:
    """List the matching files in a folder and in the folders directly below it, sorted by the bytes of their names.

    The file system lists names in any order; sorted ones give the same labels on every machine.

    Returns:
        The folder itself, named "", and its folders; and the paths of pipes, sockets and devices in the latter.
    """
    if is_remote(root):
        return _remote_tree(root.rstrip("/"), wanted_folder, wanted), []
    if not Path(root).is_dir():
        raise SourceNotFoundError(f"file_root is no folder: {root!r}")
    top = os.fsencode(root)
    names = sorted(item.name for item in _entries(top) if wanted_folder(item.name) and _kind(item) == stat.S_IFDIR)
    tree: list[_Folder] = []
    others: list[bytes] = []
    for folder in (b"", *names):
        files: list[tuple[bytes, str]] = []
        for entry in _entries(os.path.join(top, folder)):  # noqa: PTH118  # bytes
            if wanted(entry.name):
                kind = _kind(entry)
                if kind in (stat.S_IFREG, None):
                    files.append((entry.name, ""))
                elif kind != stat.S_IFDIR and folder:
                    # Opening a pipe would block the reader until another process writes to it.
                    others.append(entry.path)
        tree.append((folder, sorted(files)))
    return tree, others


def _remote_tree(root: str, wanted_folder: _Matcher, wanted: _Matcher) -> list[_Folder]:
    """List a prefix of an object store like a local folder."""
    with opening(root):
        prefixes, own = list_prefix(root)
        names = sorted(filter(wanted_folder, map(os.fsencode, prefixes)))
        listings = map_or_raise(list_prefix, [f"{root}/{os.fsdecode(name)}" for name in names])
    tree: list[_Folder] = []
    for folder, objects in zip((b"", *names), (own, *(objects for _, objects in listings)), strict=True):
        named = sorted((os.fsencode(item.path.rpartition("/")[2]), item.etag) for item in objects)
        tree.append((folder, [(name, tag) for name, tag in named if wanted(name)]))
    return tree


def class_folder_stamp(root: str) -> Hashable:
    """Return the stamps of the folder and of the folders in it, which change when files are added or removed."""
    with opening(root):  # a folder that this user may not enter is an error already here
        if not Path(root).is_dir():
            return None
    folders = (entry.path for entry in _entries(os.fsencode(root)) if _kind(entry) == stat.S_IFDIR)
    return file_stamps(root, *sorted(folders))


def _entries(folder: bytes) -> Iterator[os.DirEntry[bytes]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError as error:
        raise SourceError(
            f"the folder {os.fsdecode(folder)!r} cannot be read: {error.strerror}",
            fix="the right to read it, or dir_filters that leave it out",
        ) from error


def _matcher(patterns: tuple[str, ...], *, case_sensitive: bool) -> _Matcher:
    """Return a function that tests names against patterns. Without patterns, every name matches."""
    if not patterns:
        return lambda _: True
    # One compiled expression, as fnmatch() looks up each pattern again for every name.
    expression = re.compile("|".join(translate(item if case_sensitive else item.lower()) for item in patterns))
    if case_sensitive:
        return lambda name: expression.match(os.fsdecode(name)) is not None
    return lambda name: expression.match(os.fsdecode(name).lower()) is not None


def _kind(entry: os.DirEntry[bytes]) -> int | None:
    """Return the file type of an entry, after following links; None for a link that cannot be resolved."""
    # scandir knows the type of most entries already, so that a large folder does not need a stat() per file.
    if entry.is_file(follow_symlinks=False):
        return stat.S_IFREG
    try:
        return stat.S_IFMT(entry.stat().st_mode)
    # A broken link stays in the data set, as a sample whose error names the file.
    except OSError:
        return None
