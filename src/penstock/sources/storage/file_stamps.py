"""Stamps of files: values that change when a file is written."""

import os
from collections.abc import Hashable


def file_stamps(*paths: str | bytes | os.PathLike[str]) -> Hashable:
    """Return a value that changes when a file is written, or when an entry of a folder is added, removed or renamed.

    It costs one `stat` per path. A path that does not exist has a stamp, too.
    """
    return tuple(map(_stamp, paths))


def check_unchanged(path: str, stamp: Hashable) -> None:
    """Check that a file still has a stamp.

    Raises:
        ValueError: It has been written to.
    """
    if file_stamps(path) != stamp:
        raise ValueError("the file has been written to since the data set was opened")


def _stamp(path: str | bytes | os.PathLike[str]) -> Hashable:
    try:
        status = os.stat(path)  # noqa: PTH116  # also of a name that is no valid text
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size
