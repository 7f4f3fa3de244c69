"""Machine code on disk: a folder with a file per compiled loop, which several processes may use at once.

What is kept runs in the process that finds it. So a folder is used only if nobody but the user and root can write to it
(`native/trusted_files.py`).
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import sys
from pathlib import Path

from penstock.core.atomic_files import make_folder, user_cache_dir, write_atomically
from penstock.native.trusted_files import UntrustedError, check_folder, read_trusted

LIMIT = 512
"""How many files a folder keeps. A file has a few kilobytes; those that were not used for longest go first."""

AHEAD = Path(__file__).parent / "ahead" / sys.implementation.cache_tag
"""What was compiled when the package was built, for this version of Python. Never written to afterwards.

Read as it is: who can write to the package's folder can change its Python files, too.
"""

_SUFFIX = ".code"
_DIGEST = hashlib.sha256().digest_size
_log = logging.getLogger("penstock")
_said: set[str] = set()


def code_folders() -> list[Path]:
    """Where machine code may lie: all are looked into, and the first that takes a file gets it.

    ``NUMBA_CACHE_DIR``, if it is set, is the only place; else the user's cache folder, and then the package's own.
    """
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(chosen) / "penstock"]
    own = Path(__file__).parent / "__pycache__" / "code"
    users = user_cache_dir()
    return [own] if users is None else [users, own]


def read_code(name: str) -> bytes | None:
    """What was kept under a name; None where nothing was, or what is there is damaged or not to be trusted."""
    for folder in code_folders():
        try:
            data = _verified(read_trusted(folder, name + _SUFFIX))
        except UntrustedError as error:
            if os.path.lexists(folder / (name + _SUFFIX)):
                _warn(error)
            continue
        except OSError:
            continue
        if data is not None:
            with contextlib.suppress(OSError):
                os.utime(folder / (name + _SUFFIX))  # it is in use
            return data
    return None


def read_ahead(name: str) -> bytes | None:
    """What was compiled when the package was built; None where nothing was, or what is there is damaged."""
    try:
        return _verified((AHEAD / (name + _SUFFIX)).read_bytes())
    except OSError:
        return None


def _verified(content: bytes) -> bytes | None:
    """The data in a file, if they are what was written."""
    digest, data = content[:_DIGEST], content[_DIGEST:]
    return data if hashlib.sha256(data).digest() == digest else None


def write_code(name: str, data: bytes) -> None:
    """Keep data under a name. Where no folder can be written, a warning says so, once."""
    reasons: list[str] = []
    for folder in code_folders():
        try:
            make_folder(folder)
            check_folder(folder)
            write_code_to(folder, name, data)
        except UntrustedError as error:
            _warn(error)
        except OSError as error:
            reasons.append(f"{folder} ({error.strerror or error})")
        else:
            _tidy(folder)
            return
    what = ", ".join(reasons)
    if what and what not in _said:
        _said.add(what)
        _log.warning(
            "compiled loops cannot be kept, so every process compiles them anew: %s cannot be written; "
            "set NUMBA_CACHE_DIR to a folder that can",
            what,
        )


def _warn(error: UntrustedError) -> None:
    """Say once why a folder is not used."""
    if str(error.path) not in _said:
        _said.add(str(error.path))
        _log.warning(
            "machine code is neither loaded from %s nor kept there, because %s: loops are compiled again; "
            "fix: %s, or set NUMBA_CACHE_DIR to a folder that only you can write to",
            error.path,
            error.why,
            error.fix,
        )


def write_code_to(folder: Path, name: str, data: bytes) -> Path:
    """Write data into a file of a folder, whole or not at all, whoever else writes the same."""
    path = folder / (name + _SUFFIX)
    write_atomically(path, [hashlib.sha256(data).digest(), data])
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
