"""File stamps."""

from __future__ import annotations

import os
from collections.abc import Hashable


def file_stamps(*paths: str | bytes | os.PathLike[str]) -> Hashable:
    """Return a value that changes when a file is written, or when an entry of a folder is added, removed or renamed.

    It costs one `stat` per path. A path that does not exist has a stamp, too.
    """
    return tuple(map(_stamp, paths))


def _stamp(path: str | bytes | os.PathLike[str]) -> Hashable:
    try:
        match = os.stat(path)  # noqa: PTH116  # also of a name that is no valid text
    except OSError:
        return None
    return match.st_dev, match.st_ino, match.st_mtime_ns, match.st_size
