"""What is written to disk: files that are there whole or not at all, and a folder of the user's to keep them in."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

UNFINISHED = ".part"
"""How the names of files end that are being written."""


def user_cache_dir() -> Path | None:
    """Penstock's part of the user's cache folder; None for a user without a home."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "penstock"
    try:
        return Path.home() / ".cache" / "penstock"
    except RuntimeError:
        return None


def make_folder(folder: Path) -> None:
    """Make a folder and its parents for the user alone, whatever the umask is: machine code is kept in some of them.

    Raises:
        OSError: it cannot be made.
    """
    if not folder.is_dir():
        for path in reversed([folder, *folder.parents]):
            path.mkdir(mode=0o700, exist_ok=True)


def write_atomically(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write a file under another name, then rename it: whoever reads or writes the same meanwhile has a whole one.

    Raises:
        OSError: it cannot be written.
    """
    descriptor, unfinished = tempfile.mkstemp(UNFINISHED, path.name, path.parent)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123  # a descriptor
            file.writelines(parts)
        Path(unfinished).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(unfinished).unlink()
        raise


def fsync_file(file: IO[Any]) -> None:
    """See that what was written to a file is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def fsync_directory(folder: Path) -> None:
    """See that the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
