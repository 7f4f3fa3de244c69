"""Cache of machine code on disk: a file per compiled loop. Several processes may share it.

Cached code runs in the process that loads it, so a folder is used only if no user but its owner and root can write to
it (`native/trusted_files.py`).
"""

import contextlib
import hashlib
import logging
import os
import sys
from pathlib import Path

from penstock.core.atomic_files import make_folder, user_cache_dir, write_atomically
from penstock.native.trusted_files import UntrustedError, check_folder, read_trusted

# Files per folder, of a few kilobytes each. The least recently used are removed first.
LIMIT = 512

# Code compiled when the package was built, for this version of Python. Loaded without the checks of `trusted_files`: a
# user who can write to the package's folder can also change its Python files.
AHEAD = Path(__file__).parent / "ahead" / sys.implementation.cache_tag

_SUFFIX = ".code"
_DIGEST = hashlib.sha256().digest_size
_log = logging.getLogger("penstock")
_warned: set[str] = set()


def code_folders() -> list[Path]:
    """Return the folders of the cache. All are read; the first that is writable receives new files.

    ``NUMBA_CACHE_DIR`` is the only folder if it is set; otherwise the user's cache folder, then the package's.
    """
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(chosen) / "penstock"]
    own = Path(__file__).parent / "__pycache__" / "code"
    users = user_cache_dir()
    return [own] if users is None else [users, own]


def read_code(name: str) -> bytes | None:
    """Return the cached data of a name; None if there are none, or if the file is damaged or not trusted."""
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
                # The modification time is that of the last use, for `_tidy`.
                os.utime(folder / (name + _SUFFIX))
            return data
    return None


def read_ahead(name: str) -> bytes | None:
    """Return the data of a name from the package; None if there are none, or if the file is damaged."""
    try:
        return _verified((AHEAD / (name + _SUFFIX)).read_bytes())
    except OSError:
        return None


def _verified(content: bytes) -> bytes | None:
    """Return the data of a file; None if the digest does not match."""
    digest, data = content[:_DIGEST], content[_DIGEST:]
    return data if hashlib.sha256(data).digest() == digest else None


def write_code(name: str, data: bytes) -> None:
    """Cache data under a name. Logs a warning, once, if no folder is writable."""
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
    problem = ", ".join(reasons)
    if problem and problem not in _warned:
        _warned.add(problem)
        _log.warning(
            "compiled loops cannot be cached, so every process compiles them again: %s cannot be written; "
            "set NUMBA_CACHE_DIR to a folder that can",
            problem,
        )


def _warn(error: UntrustedError) -> None:
    """Log once why a folder is not used."""
    if str(error.path) not in _warned:
        _warned.add(str(error.path))
        _log.warning(
            "machine code is neither loaded from %s nor cached there, because %s: loops are compiled again; "
            "fix: %s, or set NUMBA_CACHE_DIR to a folder that only you can write to",
            error.path,
            error.why,
            error.fix,
        )


def write_code_to(folder: Path, name: str, data: bytes) -> Path:
    """Write a file with data and their digest, atomically."""
    path = folder / (name + _SUFFIX)
    write_atomically(path, [hashlib.sha256(data).digest(), data])
    return path


def _tidy(folder: Path) -> None:
    """Remove the least recently used files beyond the limit. Other processes may do the same at the same time."""
    files: list[tuple[float, Path]] = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            files.append((path.stat().st_mtime, path))
    for _, path in sorted(files, reverse=True)[LIMIT:]:
        with contextlib.suppress(OSError):
            path.unlink()
