"""Objects of a store as local files, for libraries that open files by their names."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Hashable, Sequence
from pathlib import Path

from penstock.sources.storage.byte_range import Extent, Found
from penstock.sources.storage.disk_cache import fetch_through
from penstock.sources.storage.file_stamps import stamp_of
from penstock.sources.storage.object_store import cannot_open, head, is_remote, several

_BLOCK = 1 << 22
"""Bytes that are fetched at once."""


class Copies:
    """Files as they are, and copies of objects, in a temporary folder that is removed when nobody uses them any more.

    Args:
        paths: of files and objects.

    Raises:
        SourceNotFoundError: there is no such object.
        SourceError: one cannot be read, or there is no room for it.

    Attributes:
        files: per path the local file.
        states: per path what changes when it is written to.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.files, self.states = list(paths), list[Hashable](map(stamp_of, paths))
        far = [number for number, path in enumerate(paths) if is_remote(path)]
        if not far:
            return
        folder = tempfile.mkdtemp(prefix="penstock-")
        weakref.finalize(self, _remove, folder, os.getpid())
        blocks: list[tuple[Path, Found, int]] = []
        for number, found in zip(far, several(head, [paths[number] for number in far]), strict=True):
            if isinstance(found, OSError):
                raise cannot_open(paths[number], found) from found
            place = Path(folder) / f"{number}-{os.path.basename(found.path)}"  # noqa: PTH119  # a URL
            place.touch()
            self.files[number], self.states[number] = str(place), (found.tag, found.size)
            blocks += [(place, found, at) for at in range(0, found.size, _BLOCK)]
        for (_, found, _), error in zip(blocks, several(_copy, blocks), strict=True):
            if error is not None:
                raise cannot_open(found.path, error) from error


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not a fork of it
        shutil.rmtree(folder, ignore_errors=True)


def _copy(block: tuple[Path, Found, int]) -> None:
    place, found, at = block
    data = fetch_through(Extent(found.path, at, min(at + _BLOCK, found.size), found.tag))
    with place.open("r+b") as file:
        file.seek(at)
        file.write(data.data)
