"""Arguments that take a path, or several: files, folders, globs and brace patterns."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from fnmatch import fnmatchcase
from glob import glob, has_magic
from itertools import pairwise
from os import PathLike, fspath
from pathlib import Path as LocalPath

from penstock.errors import SourceNotFoundError
from penstock.sources.storage.object_store import is_remote, list_prefix, open_error

Path = str | PathLike[str]

_NUMBERS = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.-?(\d+))?", re.ASCII)
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.-?(\d+))?", re.ASCII)


def as_paths(given: Path | Sequence[Path] | None) -> tuple[str, ...]:
    """The paths as texts; none, where nothing is given.

    >>> as_paths("a.tar"), as_paths(["a.tar", "b.tar"]), as_paths(None)
    (('a.tar',), ('a.tar', 'b.tar'), ())
    """
    if not given:
        return ()
    return tuple(fspath(each) for each in ([given] if isinstance(given, str | PathLike) else given))


def as_shards(given: Path | Sequence[Path] | None, suffix: str) -> tuple[str, ...]:
    """The files that paths stand for: a file itself, a folder or a glob its files in the order of their names.

    Brace patterns are expanded first: ``shard-{000..012}.tar``. A file that exists under a name counts as that file.

    Args:
        given: paths, of an object store, too; there, a folder ends with a slash.
        suffix: of the files that count in a folder.

    Raises:
        SourceNotFoundError: a folder has no such files, or nothing matches a glob.
        SourceError: a prefix of an object store cannot be listed.
    """
    return tuple(file for path in as_paths(given) for file in _files(path, suffix))


def _files(path: str, suffix: str) -> list[str]:
    if is_remote(path):
        return [file for name in expand_braces(path) for file in _objects(name, suffix)]
    if LocalPath(path).is_file():
        return [path]
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
    """The objects that a folder or a glob of an object store stands for; web servers cannot list theirs."""
    folder, _, name = path.rpartition("/")
    if path.startswith("http") or (name and not has_magic(name)):
        return [path]
    try:
        objects = [found.path for found in list_prefix(folder)[1]]
    except OSError as error:
        raise open_error(path, error) from error
    pattern = name or f"*{suffix}"
    files = sorted(each for each in objects if fnmatchcase(each.rpartition("/")[2], pattern))
    return _some(files, f"no object matches {folder}/{pattern}")


def _some(files: list[str], otherwise: str) -> list[str]:
    if not files:
        raise SourceNotFoundError(otherwise)
    return files


def expand_braces(pattern: str) -> list[str]:
    """The names that a pattern stands for, as in a shell: lists and ranges between braces.

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
    """The numbers or letters of a range such as ``08..10``; none, if it is not a range."""
    if (match := _NUMBERS.fullmatch(text)) is not None:
        first, last = int(match[1]), int(match[2])
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
