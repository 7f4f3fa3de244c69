"""Arguments that take a path, or several: files, folders, globs and brace patterns."""

import re
import string
from collections.abc import Sequence
from fnmatch import fnmatchcase
from glob import glob, has_magic
from itertools import pairwise
from os import PathLike, fspath
from pathlib import Path as LocalPath

from penstock.errors import SourceNotFoundError
from penstock.sources.storage.object_store import is_object, is_remote, list_prefix, open_error, opening

Path = str | PathLike[str]

_NUMBERS = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.-?(\d+))?", re.ASCII)
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.-?(\d+))?", re.ASCII)


def as_paths(paths: Path | Sequence[Path] | None) -> tuple[str, ...]:
    """Convert a path, or several, to a tuple of strings. None gives an empty tuple.

    >>> as_paths("a.tar"), as_paths(["a.tar", "b.tar"]), as_paths(None)
    (('a.tar',), ('a.tar', 'b.tar'), ())
    """
    if not paths:
        return ()
    return tuple(fspath(path) for path in ([paths] if isinstance(paths, str | PathLike) else paths))


def as_shards(paths: Path | Sequence[Path] | None, suffix: str) -> tuple[str, ...]:
    """Expand paths, folders and globs to files, sorted by name within a folder or glob.

    Brace patterns are expanded first: ``shard-{000..012}.tar``. An existing local file is never a pattern.

    Args:
        paths: Local or remote paths. A remote folder ends with a slash.
        suffix: Suffix of the files to take from a folder.

    Raises:
        SourceNotFoundError: A folder has no such files, or nothing matches a glob.
        SourceError: A folder, or a prefix of an object store, cannot be listed.
    """
    return tuple(file for path in as_paths(paths) for file in _files(path, suffix))


def _files(path: str, suffix: str) -> list[str]:
    if is_remote(path):
        return [file for name in expand_braces(path) for file in _objects(name, suffix)]
    try:
        return _local_files(path, suffix)
    except PermissionError as error:  # of a folder that this user may not enter
        raise open_error(path, error) from error


def _local_files(path: str, suffix: str) -> list[str]:
    if LocalPath(path).is_file():
        return [path]
    # Braces are legal in file names, so this comes after the check for a file.
    names = expand_braces(path)
    if names != [path]:
        return [file for name in names for file in _files(name, suffix)]
    if LocalPath(path).is_dir():
        files = sorted(str(file) for file in LocalPath(path).iterdir() if file.name.endswith(suffix))
        files = [file for file in files if not LocalPath(file).name.startswith(".")]
        return _some(files, f"the folder {path!r} has no files that end in {suffix}")
    if not has_magic(path):
        return [path]
    return _some(sorted(glob(path, recursive=True)), f"no file matches {path!r}")  # noqa: PTH207  # absolute ones, too


def _objects(path: str, suffix: str) -> list[str]:
    """Expand a folder or glob of an object store to its objects."""
    folder, _, name = path.rpartition("/")
    # Web servers cannot list folders: the path must name a file.
    if path.startswith("http"):
        return [path]
    # Only the last part is a pattern, but a key may contain any character.
    fix = "name each folder: only the last part of a remote path may have wildcards" if has_magic(folder) else None
    if name and not has_magic(name):
        return _some([path] if fix is None or is_object(path) else [], f"there is no object {path}", fix)
    with opening(path):
        objects = [item.path for item in list_prefix(folder)[1]]
    pattern = name or f"*{suffix}"
    names = [(item.rpartition("/")[2], item) for item in objects]
    # As in local folders, patterns match hidden files only if they begin with a dot.
    names = [pair for pair in names if pattern.startswith(".") or not pair[0].startswith(".")]
    files = sorted(item for name, item in names if fnmatchcase(name, pattern))
    return _some(files, f"no object matches {folder}/{pattern}", fix)


def _some(files: list[str], otherwise: str, fix: str | None = None) -> list[str]:
    if not files:
        raise SourceNotFoundError(otherwise, fix=fix)
    return files


def expand_braces(pattern: str) -> list[str]:
    """Expand lists and ranges in braces, as a shell does.

    >>> expand_braces("{train,test}-{08..10}.tar")[:4]
    ['train-08.tar', 'train-09.tar', 'train-10.tar', 'test-08.tar']
    """
    start = pattern.find("{")
    depth, cuts = 0, [start]
    for place in range(max(start, 0), len(pattern) if start >= 0 else 0):
        depth += (pattern[place] == "{") - (pattern[place] == "}")
        if depth == 0 or (depth == 1 and pattern[place] == ","):
            cuts.append(place)
        if depth == 0:
            break
    if start < 0 or depth:
        return [pattern]
    parts = [pattern[first + 1 : last] for first, last in pairwise(cuts)]
    if len(parts) > 1:
        parts = [name for part in parts for name in expand_braces(part)]
    else:
        parts = _range(parts[0]) or [f"{{{inner}}}" for inner in expand_braces(parts[0])]
    rests = expand_braces(pattern[cuts[-1] + 1 :])
    return [pattern[:start] + part + rest for part in parts for rest in rests]


def _range(text: str) -> list[str]:
    """Expand a range such as ``08..10``. Text that is not a range gives an empty list."""
    if (match := _NUMBERS.fullmatch(text)) is not None:
        first, last = int(match[1]), int(match[2])
        # As in bash, a leading zero in either bound pads all numbers to the longer bound.
        padded = any(number.lstrip("-").startswith("0") and len(number) > 1 for number in match.group(1, 2))
        width = max(map(len, match.group(1, 2))) if padded else 0
        return [f"{number:0{width}d}" for number in _between(first, last, match[3])]
    if (match := _LETTERS.fullmatch(text)) is not None:
        letters = string.ascii_uppercase + string.ascii_lowercase
        return [letters[n] for n in _between(letters.index(match[1]), letters.index(match[2]), match[3])]
    return []


def _between(first: int, last: int, step: str | None) -> range:
    by = max(int(step or 1), 1)
    return range(first, last + 1, by) if first <= last else range(first, last - 1, -by)
