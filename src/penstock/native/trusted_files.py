"""Files that are safe to run: nobody but the user and root can have written them, nor can replace them.

Every folder from the root on counts, because who can write to a folder can rename what is in it. A folder that
everybody can write to is accepted on the way only with the sticky bit, as /tmp has it: there, only owners rename. All
checks look at what is already open, so that nothing can be exchanged between the check and the use. ACLs count: they
show as the permissions of the group. On Windows, where files have no such permissions, nothing is checked.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
"""Opening a folder; by O_PATH, it need not be readable."""

_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
"""Opening a file; a pipe in its place must not block."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ROOT = 0


class UntrustedError(PermissionError):
    """Somebody other than the user and root can write to a file or a folder.

    Args:
        path: the file or the folder.
        why: who can.
        fix: what helps.
    """

    def __init__(self, path: Path, why: str, fix: str) -> None:
        super().__init__(errno.EPERM, why, str(path))
        self.path, self.why, self.fix = path, why, fix


def read_trusted(folder: Path, name: str) -> bytes:
    """The content of a file.

    Raises:
        UntrustedError: others can write the file, or replace it.
        OSError: the file cannot be read.
    """
    if os.name != "posix":
        return (folder / name).read_bytes()
    descriptor = _open(folder)
    try:
        file = os.open(name, _FILE, dir_fd=descriptor)
    finally:
        os.close(descriptor)
    with open(file, "rb") as stream:  # noqa: PTH123  # a descriptor
        _check(os.fstat(file), folder / name)
        return stream.read()


def check_folder(folder: Path) -> None:
    """Check that others cannot write to a folder, nor replace it.

    Raises:
        UntrustedError: they can.
        OSError: there is no such folder.
    """
    if os.name == "posix":
        os.close(_open(folder))


def _open(folder: Path) -> int:
    """The descriptor of a folder, opened from the root on, one checked folder after another."""
    path = Path(os.path.realpath(folder))
    descriptor = os.open(path.anchor, _FOLDER)
    try:
        _check(os.fstat(descriptor), Path(path.anchor), sticky=path != Path(path.anchor))
        for place in [*reversed(path.parents), path][1:]:
            parent, descriptor = descriptor, os.open(place.name, _FOLDER, dir_fd=descriptor)
            os.close(parent)
            _check(os.fstat(descriptor), place, sticky=place != path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check(status: os.stat_result, path: Path, *, sticky: bool = False) -> None:
    """Check one file or folder.

    Args:
        status: of what is open.
        path: for messages.
        sticky: whether others may write to it if it has the sticky bit.
    """
    if status.st_uid not in (_ROOT, os.geteuid()):
        raise UntrustedError(path, f"it belongs to user {status.st_uid}", "use a folder of your own")
    if status.st_mode & _OTHERS_WRITE and not (sticky and status.st_mode & stat.S_ISVTX):
        why = f"others can write to it (mode {stat.S_IMODE(status.st_mode):04o})"
        raise UntrustedError(path, why, f"chmod go-w {path}")
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        raise UntrustedError(path, "it is not a file", f"remove {path}")
