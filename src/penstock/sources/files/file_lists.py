"""Files named by a list of paths or by a text file."""

import codecs
import os
from collections.abc import Sequence
from pathlib import Path

from penstock.errors import SourceError
from penstock.sources.files.file_source import FileSource
from penstock.sources.storage.disk_cache import read_input
from penstock.sources.storage.object_store import is_remote


def files_from_paths(root: str, files: tuple[str, ...], labels: tuple[int, ...] | None) -> FileSource:
    """Create a source from paths, labeled by `labels` or by position.

    Raises:
        SourceError: `files` is empty, `labels` differs from it in length, or a label exceeds 32 bits.
        SourceNotFoundError: The first file does not exist.
    """
    if not files:
        raise SourceError("files is empty", expected="at least one path")
    if labels is not None and len(labels) != len(files):
        raise SourceError(f"{len(labels)} labels for {len(files)} files", fix="give one label per file")
    numbers = range(len(files)) if labels is None else labels
    # Labels are int32, as in DALI.
    wrong = next((number for number in numbers if not -(2**31) <= number < 2**31), None)
    if wrong is not None:
        raise SourceError("a label is a number of 32 bits", given=wrong)
    return _checked(FileSource(root, [os.fsencode(file) for file in files], numbers))


def files_from_name_list(list_path: str, root: str | None) -> FileSource:
    """Create a source from a text file with one path per line. All labels are 0.

    Paths are relative to the list's folder or to `root`; they can contain spaces. Blank lines are skipped.

    Raises:
        SourceNotFoundError: The list, or the first file in it, does not exist.
        SourceError: The list is empty.
    """
    names = [name for line in _lines(list_path) if (name := line.strip())]
    return _listed(list_path, root, names, [0] * len(names))


def files_from_labeled_list(list_path: str, root: str | None) -> FileSource:
    """Create a source from a text file with one path, white space and a label per line.

    Paths are relative to the list's folder or to `root`; they can contain spaces. Blank lines are skipped.

    Raises:
        SourceNotFoundError: The list, or the first file in it, does not exist.
        SourceError: A line lacks a label, or the list is empty.
    """
    names: list[bytes] = []
    labels: list[int] = []
    for number, line in enumerate(_lines(list_path), start=1):
        # The label follows the last space or tab, because a path can contain spaces.
        words = line.strip().rsplit(maxsplit=1)
        if not words:
            continue
        if len(words) < 2 or not words[1].isdigit() or int(words[1]) >= 2**31:
            raise SourceError(
                f"{list_path}:{number} is not a path, a space or tab, and a label",
                given=os.fsdecode(line),
                expected="cat/1.jpg 3, the label below 2**31",
            )
        names.append(words[0])
        labels.append(int(words[1]))
    return _listed(list_path, root, names, labels)


def _lines(list_path: str) -> list[bytes]:
    # Windows editors begin UTF-8 with a byte order mark, which would become part of the first path.
    return read_input(list_path, "file_list").removeprefix(codecs.BOM_UTF8).splitlines()


def _listed(list_path: str, root: str | None, names: Sequence[bytes], labels: Sequence[int]) -> FileSource:
    if not names:
        raise SourceError(f"{list_path} lists no files")
    if root is None:
        root = list_path.rpartition("/")[0] if is_remote(list_path) else str(Path(list_path).parent)
    return _checked(FileSource(root, names, labels))


def _checked(source: FileSource) -> FileSource:
    # Only the first file is checked: a wrong root fails at once, and millions of files need no stat() each.
    source.check_first("paths are relative to file_root")
    return source
