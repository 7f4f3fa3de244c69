"""Machine code on disk: a folder with a file per compiled loop, which several processes may use at once."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import sys
from pathlib import Path

from penstock.disk import user_folder, write_whole

LIMIT = 512
"""How many files a folder keeps. A file has a few kilobytes; those that were not used for longest go first."""

AHEAD = Path(__file__).parent / "ahead" / sys.implementation.cache_tag
"""What was compiled when the package was built, for this version of Python. Never written to afterwards."""

_SUFFIX = ".code"
_DIGEST = hashlib.sha256().digest_size
_log = logging.getLogger("penstock")
_said: set[str] = set()


def folders() -> list[Path]:
    """Where machine code may lie: all are looked into, and the first that takes a file gets it.

    ``NUMBA_CACHE_DIR``, if it is set, is the only place; else the user's cache folder, and then the package's own.
    """
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(chosen) / "penstock"]
    own = Path(__file__).parent / "__pycache__" / "code"
    users = user_folder()
    return [own] if users is None else [users, own]


def read(name: str) -> bytes | None:
    """What was kept under a name; None where nothing was, or what is there is damaged."""
    for folder in folders():
        data = load(folder, name)
        if data is not None:
            with contextlib.suppress(OSError):
                os.utime(folder / (name + _SUFFIX))  # it is in use
            return data
    return None


def load(folder: Path, name: str) -> bytes | None:
    """What a folder has under a name, if that is what was written."""
    try:
        content = (folder / (name + _SUFFIX)).read_bytes()
    except OSError:
        return None
    digest, data = content[:_DIGEST], content[_DIGEST:]
    return data if hashlib.sha256(data).digest() == digest else None


def write(name: str, data: bytes) -> None:
    """Keep data under a name. Where no folder can be written, a warning says so, once."""
    reasons: list[str] = []
    for folder in folders():
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            store(folder, name, data)
        except OSError as error:
            reasons.append(f"{folder} ({error.strerror or error})")
        else:
            _tidy(folder)
            return
    what = ", ".join(reasons)
    if what not in _said:
        _said.add(what)
        _log.warning(
            "compiled loops cannot be kept, so every process compiles them anew: %s cannot be written; "
            "set NUMBA_CACHE_DIR to a folder that can",
            what,
        )


def store(folder: Path, name: str, data: bytes) -> Path:
    """Write data into a file of a folder, whole or not at all, whoever else writes the same."""
    path = folder / (name + _SUFFIX)
    write_whole(path, [hashlib.sha256(data).digest(), data])
    return path


def _tidy(folder: Path) -> None:
    """Remove what was not used for longest, if there is too much. Other processes may do the same."""
    files: list[tuple[float, Path]] = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            files.append((path.stat().st_mtime, path))
    for _, path in sorted(files, reverse=True)[LIMIT:]:
        with contextlib.suppress(OSError):
            path.unlink()
