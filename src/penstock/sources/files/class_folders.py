"""Listing of class folders and of the files of a tree."""

import logging
import os
import re
import stat
from collections.abc import Callable, Hashable, Iterator, Sequence
from fnmatch import translate
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from penstock.core.dataclass import dataclass
from penstock.core.warn_once import warn_once
from penstock.errors import SourceError, SourceNotFoundError
from penstock.sources.files.file_source import FileSource
from penstock.sources.storage.file_stamps import file_stamps
from penstock.sources.storage.object_store import ObjectInfo, is_remote, list_prefix, opening
from penstock.sources.storage.store_requests import map_or_raise

_log = logging.getLogger("penstock")

_Matcher = Callable[[bytes], bool]
# Name of a folder, and names and ETags of the files in it. Names are bytes, because they need not be valid UTF-8.
_Folder = tuple[bytes, list[tuple[bytes, str]]]

# Limits of the search for files in folders below class folders, so that it stays cheap beside the listing.
_PEEKED_FOLDERS, _PEEKED_ENTRIES = 8, 100


def list_class_folders(
    root: str,
    file_filters: tuple[str, ...],
    dir_filters: tuple[str, ...],
    case_sensitive: bool,
    warn_of_empty: bool = True,
) -> FileSource:
    """List the files of the folders directly below `root`, labeled with the number of their folder.

    Folders and files are sorted by the bytes of their names. Empty folders are numbered, too. A warning names empty
    folders, files that are in no class folder or in deeper ones, and pipes, sockets and devices, which are skipped.

    Args:
        root: The folder.
        file_filters: Patterns of files; none for all files.
        dir_filters: Patterns of folders; none for all folders.
        case_sensitive: True if the patterns of files distinguish upper and lower case.
        warn_of_empty: False if nothing depends on the numbers of the folders.

    Raises:
        SourceNotFoundError: `root` is not a folder.
        SourceError: No file matches, or a folder cannot be read.
    """
    wanted = _matcher(file_filters, case_sensitive=case_sensitive)
    tree = _tree(root, _matcher(dir_filters, case_sensitive=True), wanted)
    own, *folders = tree.folders
    if tree.others:
        _log.warning(
            "%d entries below %s are no files (pipes, sockets, devices) and are left out, such as %s",
            len(tree.others), root, os.fsdecode(min(tree.others)),
        )  # fmt: skip
    counts = [len(files) for _, files in folders]
    deeper = _first_with_files(root, tree.deeper, wanted)
    if not any(counts):
        raise SourceError(
            f"no files found in {root!r}",
            given=f"{len(folders)} sub-folders, filters {', '.join(file_filters)}"
            + (f"; there are files in {deeper!r}, one level deeper" if deeper else ""),
            expected="one sub-folder per class, with files that match",
            fix="give the folder above the class folders, or file_filters that match",
        )
    # Without filters, any file would count as data in a wrong place.
    loose = len(own[1]) if file_filters else 0
    empty = [os.fsdecode(name) for name, files in folders if not files] if warn_of_empty else []
    _warn_of_unread(root, counts, empty, deeper, loose)
    labels = np.repeat(np.arange(len(folders), dtype=np.int32), counts)
    return _source(root, folders, labels, [os.fsdecode(name) for name, _ in folders])


def list_files(root: str, file_filter: str) -> FileSource:
    """List the files in a folder and in the folders directly below it, all labeled 0.

    Files in the folder come first, then those in its folders, both sorted by the bytes of their names.

    Raises:
        SourceNotFoundError: `root` is not a folder.
        SourceError: No file matches, or a folder cannot be read.
    """
    own, *folders = _tree(root, lambda _: True, _matcher((file_filter,), case_sensitive=True)).folders
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


def _warn_of_unread(root: str, counts: Sequence[int], empty: Sequence[str], deeper: str | None, loose: int) -> None:
    """Warn of folders without files, and of files that are not in a class folder."""
    lines: list[str] = []
    if empty:
        lines.append(f"{len(empty)} of them, such as {empty[0]!r}, without files that match, still count as classes")
    if deeper:
        lines.append(f"files in deeper folders, such as {deeper!r}, are not read")
    if loose:
        lines.append(f"{_count(loose, 'file')} directly in it {'is' if loose == 1 else 'are'} not read")
    if lines:
        warn_once(
            root,
            f"{root!r} has {_count(sum(counts), 'file')} in {_count(len(counts), 'class folder')}; " + "; ".join(lines),
            fix="give the folder directly above the class folders; leave other folders out with dir_filters, or name "
            "files and labels in a file_list",
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _first_with_files(root: str, deeper: Sequence[bytes], wanted: _Matcher) -> str | None:
    """Return the first of a few folders below class folders, relative to the root, in which a file is wanted."""
    for name in sorted(deeper)[:_PEEKED_FOLDERS]:
        # Object stores only know folders with objects, and listing one may take many requests.
        if is_remote(root):
            return os.fsdecode(name)
        try:
            with os.scandir(os.path.join(os.fsencode(root), name)) as entries:  # noqa: PTH118  # bytes
                if any(wanted(entry.name) and not entry.is_dir() for entry in islice(entries, _PEEKED_ENTRIES)):
                    return os.fsdecode(name)
        except OSError:  # nothing of it is read, so it need not be readable
            continue
    return None


@dataclass(frozen=True)
class _Tree:
    """Listing of a folder.

    Args:
        folders: The folder itself, named "", and the folders in it.
        others: Paths of pipes, sockets and devices in the latter.
        deeper: Folders in the latter, relative to the root; a few of each.
    """

    folders: list[_Folder]
    others: list[bytes]
    deeper: list[bytes]


def _tree(root: str, wanted_folder: _Matcher, wanted: _Matcher) -> _Tree:
    """List the matching files in a folder and in the folders directly below it, sorted by the bytes of their names.

    The file system lists names in any order; sorted ones give the same labels on every machine.
    """
    if is_remote(root):
        return _remote_tree(root.rstrip("/"), wanted_folder, wanted)
    if not Path(root).is_dir():
        raise SourceNotFoundError(f"file_root is no folder: {root!r}")
    top = os.fsencode(root)
    names = sorted(item.name for item in _entries(top) if wanted_folder(item.name) and _kind(item) == stat.S_IFDIR)
    tree = _Tree([], [], [])
    for folder in (b"", *names):
        files: list[tuple[bytes, str]] = []
        deeper: list[bytes] = []
        for entry in _entries(os.path.join(top, folder)):  # noqa: PTH118  # bytes
            if wanted(entry.name):
                kind = _kind(entry)
                if kind in (stat.S_IFREG, None):
                    files.append((entry.name, ""))
                elif kind != stat.S_IFDIR and folder:
                    # Opening a pipe would block the reader until another process writes to it.
                    tree.others.append(entry.path)
            elif folder and len(deeper) < _PEEKED_FOLDERS and entry.is_dir(follow_symlinks=False):
                deeper.append(folder + b"/" + entry.name)
        tree.folders.append((folder, sorted(files)))
        tree.deeper.extend(deeper)
    return tree


def _remote_tree(root: str, wanted_folder: _Matcher, wanted: _Matcher) -> _Tree:
    """List a prefix of an object store like a local folder."""
    with opening(root):
        prefixes, own = list_prefix(root)
        names = sorted(filter(wanted_folder, map(os.fsencode, prefixes)))
        listings = map_or_raise(list_prefix, [f"{root}/{os.fsdecode(name)}" for name in names])
    tree = _Tree([], [], [])
    # Folders in the folder itself are those of `names`, not deeper ones.
    top: tuple[list[str], list[ObjectInfo]] = [], own
    for folder, (prefixes, objects) in zip((b"", *names), (top, *listings), strict=True):
        named = sorted((os.fsencode(item.path.rpartition("/")[2]), item.etag) for item in objects)
        tree.folders.append((folder, [(name, tag) for name, tag in named if wanted(name)]))
        tree.deeper.extend(folder + b"/" + os.fsencode(name) for name in prefixes[:_PEEKED_FOLDERS])
    return tree


def class_folder_stamp(root: str) -> Hashable:
    """Return the stamps of the folder and of the folders in it, which change when files are added or removed."""
    if is_remote(root):
        return file_stamps(root)
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
