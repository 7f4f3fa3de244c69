"""Temporary local copies of objects, for libraries that can open only local files."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Hashable, Sequence
from pathlib import Path

from penstock.sources.storage.byte_range import ByteRange, ObjectInfo
from penstock.sources.storage.disk_cache import fetch_cached
from penstock.sources.storage.file_stamps import file_stamps
from penstock.sources.storage.object_store import head, is_remote, opening
from penstock.sources.storage.store_requests import map_or_raise

# Bytes per request: the blocks of a large object are fetched in parallel.
_BLOCK = 1 << 22


class LocalCopies:
    """Local files for a list of paths; objects are copied to a temporary folder that is removed with this object.

    Args:
        paths: Paths of files and objects.

    Raises:
        SourceNotFoundError: An object does not exist.
        SourceError: An object cannot be read, or the disk is full.

    Attributes:
        files: Per path the local file.
        states: Per path a value that changes when the file or object is written.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.files, self.states = list(paths), list[Hashable](map(file_stamps, paths))
        far = [number for number, path in enumerate(paths) if is_remote(path)]
        if not far:
            return
        folder = tempfile.mkdtemp(prefix="penstock-")
        weakref.finalize(self, _remove, folder, os.getpid())
        blocks: list[tuple[Path, ObjectInfo, int]] = []
        for number, remote in zip(far, map_or_raise(_info, [paths[number] for number in far]), strict=True):
            place = Path(folder) / f"{number}-{os.path.basename(remote.path)}"  # noqa: PTH119  # a URL
            place.touch()
            self.files[number], self.states[number] = str(place), (remote.etag, remote.size)
            blocks += [(place, remote, at) for at in range(0, remote.size, _BLOCK)]
        map_or_raise(_copy, blocks)


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not remove the folder of its parent
        shutil.rmtree(folder, ignore_errors=True)


def _info(path: str) -> ObjectInfo:
    with opening(path):
        return head(path)


def _copy(block: tuple[Path, ObjectInfo, int]) -> None:
    place, remote, at = block
    with opening(remote.path), place.open("r+b") as file:
        data = fetch_cached(ByteRange(remote.path, at, min(at + _BLOCK, remote.size), remote.etag))
        file.seek(at)
        file.write(data.data)
