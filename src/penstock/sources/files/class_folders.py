"""Listing of class folders and of the files of a tree."""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Callable, Hashable, Iterator
from fnmatch import translate
from pathlib import Path

from penstock.errors import SourceError, SourceNotFoundError
from penstock.sources.files.file_source import FileSource
from penstock.sources.storage.file_stamps import file_stamps
from penstock.sources.storage.object_store import is_remote, list_prefix, open_error
from penstock.sources.storage.remote_folders import subfolders

_log = logging.getLogger("penstock")


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
    if is_remote(root):
        return _from_remote_root(root, file_filters, dir_filters, case_sensitive)
    if not Path(root).is_dir():
        raise SourceNotFoundError(f"file_root is no folder: {root!r}")
    top = os.fsencode(root)
    wanted = _matcher(dir_filters, case_sensitive=True)
    # The file system lists names in any order; sorted ones give the same labels on every machine. Names are bytes,
    # because they need not be valid UTF-8.
    folders = sorted(entry.name for entry in _entries(top) if wanted(entry.name) and _kind(entry) == stat.S_IFDIR)
    wanted = _matcher(file_filters, case_sensitive=case_sensitive)
    names: list[bytes] = []
    labels: list[int] = []
    others: list[bytes] = []
    for label, folder in enumerate(folders):
        files: list[bytes] = []
        for entry in _entries(os.path.join(top, folder)):  # noqa: PTH118  # bytes
            if wanted(entry.name):
                kind = _kind(entry)
                if kind in (stat.S_IFREG, None):
                    files.append(folder + b"/" + entry.name)
                elif kind != stat.S_IFDIR:
                    # Opening a pipe would block the reader until another process writes to it.
                    others.append(entry.path)
        names += sorted(files)
        labels += [label] * len(files)
    if others:
        _log.warning(
            "%d entries below %s are no files (pipes, sockets, devices) and are left out, such as %s",
            len(others), root, os.fsdecode(min(others)),
        )  # fmt: skip
    if not names:
        raise _none_found(root, len(folders), file_filters)
    return FileSource(root, names, labels)


def _none_found(root: str, folders: int, file_filters: tuple[str, ...]) -> SourceError:
    return SourceError(
        f"no files found in {root!r}",
        given=f"{folders} sub-folders, filters {', '.join(file_filters)}",
        expected="one sub-folder per class, with files that match",
        fix="give the folder above the class folders, or file_filters that match",
    )


def _from_remote_root(
    root: str, file_filters: tuple[str, ...], dir_filters: tuple[str, ...], case_sensitive: bool
) -> FileSource:
    """List class folders below a prefix of an object store."""
    try:
        folders = subfolders(root, _matcher(dir_filters, case_sensitive=True))
    except OSError as error:
        raise open_error(root, error) from error
    wanted = _matcher(file_filters, case_sensitive=case_sensitive)
    files: list[tuple[bytes, int, str]] = []
    for label, (folder, objects) in enumerate(folders):
        named = sorted((os.fsencode(item.path.rpartition("/")[2]), item.etag) for item in objects)
        files += [(folder + b"/" + name, label, tag) for name, tag in named if wanted(name)]
    if not files:
        raise _none_found(root, len(folders), file_filters)
    names, labels, tags = zip(*files, strict=True)
    return FileSource(root, names, labels, tags)


def list_files(root: str, file_filter: str) -> FileSource:
    """List the files in a folder and in the folders directly below it, all labeled 0.

    Files in the folder come first, then those in its folders, both sorted by the bytes of their names.

    Raises:
        SourceNotFoundError: `root` is not a folder.
        SourceError: No file matches, or a folder cannot be read.
    """
    wanted = _matcher((file_filter,), case_sensitive=True)
    if is_remote(root):
        return _from_remote_tree(root, file_filter, wanted)
    if not Path(root).is_dir():
        raise SourceNotFoundError(f"file_root is no folder: {root!r}")
    top = os.fsencode(root)
    folders = sorted(entry.name + b"/" for entry in _entries(top) if _kind(entry) == stat.S_IFDIR)
    names = [
        folder + name
        for folder in (b"", *folders)
        for name in sorted(
            entry.name
            for entry in _entries(top + b"/" + folder)
            if wanted(entry.name) and _kind(entry) in (stat.S_IFREG, None)
        )
    ]
    if not names:
        raise _none_in_tree(root, len(folders), file_filter)
    return FileSource(root, names, [0] * len(names))


def _none_in_tree(root: str, folders: int, file_filter: str) -> SourceError:
    return SourceError(
        f"no files found in {root!r}",
        given=f"{folders} sub-folders, the filter {file_filter!r}",
        fix="give the folder with the files, or one above it, and a file_filter that matches",
    )


def _from_remote_tree(root: str, file_filter: str, wanted: Callable[[bytes], bool]) -> FileSource:
    """List the files below a prefix of an object store."""
    try:
        own, folders = list_prefix(root)[1], subfolders(root, lambda _: True)
    except OSError as error:
        raise open_error(root, error) from error
    files: list[tuple[bytes, str]] = []
    for folder, objects in ((b"", own), *((name + b"/", objects) for name, objects in folders)):
        named = sorted((os.fsencode(item.path.rpartition("/")[2]), item.etag) for item in objects)
        files += [(folder + name, tag) for name, tag in named if wanted(name)]
    if not files:
        raise _none_in_tree(root, len(folders), file_filter)
    names, tags = zip(*files, strict=True)
    return FileSource(root, names, [0] * len(names), tags)


def class_folder_stamp(root: str) -> Hashable:
    """Return the stamps of the folder and of the folders in it, which change when files are added or removed."""
    if not Path(root).is_dir():
        return None
    return file_stamps(
        root, *sorted(entry.path for entry in _entries(os.fsencode(root)) if _kind(entry) == stat.S_IFDIR)
    )


def _entries(folder: bytes) -> Iterator[os.DirEntry[bytes]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError as error:
        raise SourceError(
            f"the folder {os.fsdecode(folder)!r} cannot be read: {error.strerror}",
            fix="the right to read it, or dir_filters that leave it out",
        ) from error


def _matcher(patterns: tuple[str, ...], *, case_sensitive: bool) -> Callable[[bytes], bool]:
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
