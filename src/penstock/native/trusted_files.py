"""Trusted files: files that only the user and root can write or replace.

All parent folders count, because a user who can write to a folder can rename its entries. A world-writable parent is
accepted only with the sticky bit, as on /tmp, where only owners can rename. All checks use open descriptors, so that no
file can be exchanged between the check and the use. ACLs count: they show as the permissions of the group. On Windows,
where files have no such permissions, nothing is checked.
"""

import errno
import os
import stat
from pathlib import Path

# Not on Windows.
_HAS_OWNERS = hasattr(os, "geteuid")

# Flags to open a folder. With O_PATH, it need not be readable.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)

# Flags to open a file. With O_NONBLOCK, a pipe in its place does not block.
_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ROOT = 0


class UntrustedError(PermissionError):
    """File or folder that other users can write.

    Args:
        path: The file or folder.
        why: The reason.
        fix: The fix for the message.
    """

    def __init__(self, path: Path, why: str, fix: str) -> None:
        super().__init__(errno.EPERM, why, str(path))
        self.path, self.why, self.fix = path, why, fix


def read_trusted(folder: Path, name: str) -> bytes:
    """Read a file.

    Raises:
        UntrustedError: other users can write or replace the file.
        OSError: the file cannot be read.
    """
    if not _HAS_OWNERS:
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
    """Check that other users can neither write to a folder nor replace it.

    Raises:
        UntrustedError: they can.
        OSError: the folder does not exist.
    """
    if _HAS_OWNERS:
        os.close(_open(folder))


def _open(folder: Path) -> int:
    """Open a folder from the root down, checking each folder on the path. Returns its descriptor."""
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
        status: The status of the open descriptor.
        path: The path, for messages.
        sticky: True if other users may write to it if it has the sticky bit.
    """
    if status.st_uid not in (_ROOT, os.geteuid()):
        raise UntrustedError(path, f"it belongs to user {status.st_uid}", "use a folder of your own")
    if status.st_mode & _OTHERS_WRITE and not (sticky and status.st_mode & stat.S_ISVTX):
        why = f"others can write to it (mode {stat.S_IMODE(status.st_mode):04o})"
        raise UntrustedError(path, why, f"chmod go-w {path}")
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        raise UntrustedError(path, "it is not a file", f"remove {path}")
