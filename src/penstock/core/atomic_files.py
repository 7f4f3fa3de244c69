"""Atomic file writes, and the user's cache folder."""

import contextlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

# Suffix of files that are being written.
UNFINISHED = ".part"


def user_cache_dir() -> Path | None:
    """Return penstock's folder in the user's cache folder; None for a user without a home."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "penstock"
    try:
        return Path.home() / ".cache" / "penstock"
    except RuntimeError:
        return None


def make_folder(folder: Path) -> None:
    """Create a folder and its parents with permissions for the user only.

    Raises:
        OSError: The folder cannot be created.
    """
    # The umask may allow others to write, and some of these folders hold machine code. `mkdir(parents=True)` would give
    # the parents default permissions.
    if not folder.is_dir():
        for path in reversed([folder, *folder.parents]):
            path.mkdir(mode=0o700, exist_ok=True)


def write_atomically(path: Path, parts: Iterable[bytes | memoryview], mode: int = 0o600) -> None:
    """Write a file under a temporary name, then rename it, so that concurrent readers and writers see whole files.

    Args:
        path: The file.
        parts: Its content.
        mode: Permissions, from which the umask takes some; by default the user alone may read and write it.

    Raises:
        OSError: The file cannot be written.
    """
    # In the same folder, because a rename is atomic only within a file system.
    unfinished = path.with_name(f"{path.name}{secrets.token_hex(8)}{UNFINISHED}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123  # a descriptor
            file.writelines(parts)
        unfinished.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise


def fsync_file(file: IO[Any]) -> None:
    """Flush a file to the disk."""
    file.flush()
    os.fsync(file.fileno())


def fsync_directory(folder: Path) -> None:
    """Flush the names in a folder to the disk, such as that of a renamed file."""
    # A rename changes the folder, not the file, so the folder must be flushed as well. Windows cannot open folders.
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
