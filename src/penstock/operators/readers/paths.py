"""Paths of data sets: absolute ones, and checks of lists of files and of their indexes."""

from collections.abc import Sequence, Sized
from os import PathLike, fspath
from pathlib import Path

from penstock.errors import DefinitionError
from penstock.sources.storage.object_store import is_remote


def absolute_path(path: str | PathLike[str]) -> str:
    """Return an absolute path: a change of the working directory must not open another data set under the same key."""
    return fspath(path) if is_remote(path) else str(Path(path).absolute())


def check_not_empty(**lists: Sized) -> None:
    """Check that lists have entries.

    Args:
        lists: Lists by the names of the user's arguments.

    Raises:
        DefinitionError: One is empty.
    """
    for name, entries in lists.items():
        if not entries:
            raise DefinitionError(f"{name} is empty")


def check_one_per_file(name: str, entries: Sized, files: Sized, fix: str | None = None) -> None:
    """Check that a list has an entry per file.

    Args:
        name: Name of the user's argument, for the message.
        entries: The list.
        files: The files.
        fix: Fix for the message; by default to leave the argument out.

    Raises:
        DefinitionError: The list has another number of entries.
    """
    if len(entries) != len(files):
        raise DefinitionError(
            f"{name} must have one entry per file",
            given=f"{len(entries)} for {len(files)} files",
            fix=fix or f"leave {name} out",
        )


def pair_indexes(name: str, indexes: Sequence[str], files: Sequence[str], suffix: str) -> tuple[str, ...]:
    """Return the index of each file: the one of the same name, or the one at the same place if the names differ.

    Folders are sorted by full names, where ``train.more.tar`` comes before ``train.tar``, but ``train.idx`` before
    ``train.more.idx``.

    Args:
        name: Name of the user's argument, for the message.
        indexes: The indexes, which end in ".idx"; empty for none.
        files: The files.
        suffix: Suffix of the files.

    Raises:
        DefinitionError: The number of indexes is not that of files.
    """
    if not indexes:
        return ()
    check_one_per_file(name, indexes, files)
    by_name: dict[str, list[str]] = {}
    for index in reversed(indexes):
        by_name.setdefault(Path(index).name.removesuffix(".idx"), []).append(index)
    try:
        # Files of one name, in several folders, take the indexes of this name in their order.
        return tuple(by_name[Path(file).name.removesuffix(suffix)].pop() for file in files)
    except (KeyError, IndexError):
        return tuple(indexes)
