"""Read rates of file systems and object stores, one request at a time and many at once."""

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.diagnose.check import Check
from penstock.errors import MissingExtraError
from penstock.sources.storage.byte_range import ByteRange
from penstock.sources.storage.local_bytes import read_file
from penstock.sources.storage.object_store import fetch, is_remote, list_prefix
from penstock.sources.storage.store_requests import map_or_raise

# Requests of each measurement, and the largest file to read: enough for a rate, and seconds even if each takes 0.1 s.
_SERIAL, _CONCURRENT = 16, 64
_MAX_BYTES = 64 << 20

# Seconds per request from which waiting limits a reader. A local disk takes under 1 ms, a network file system several;
# object stores take 20 to 50 ms, which the default number of concurrent requests hides.
_SLOW_FILE, _SLOW_OBJECT = 10e-3, 100e-3


@dataclass(frozen=True)
class ReadRates:
    """Measured reads of a path.

    Args:
        path: The path.
        wait: Seconds per request, one at a time.
        serial: Bytes per second, one request at a time.
        concurrent: Bytes per second, many requests at once.
    """

    path: str
    wait: float
    serial: float
    concurrent: float

    def checks(self) -> Iterator[Check]:
        """Yield the rates, and the verdict on the time per request."""
        section = f"reads of {self.path}"
        remote = is_remote(self.path)
        slow = self.wait >= (_SLOW_OBJECT if remote else _SLOW_FILE)
        name = "the store answers slowly" if remote else "the file system answers slowly"
        yield Check(
            section,
            "ms per request",
            self.wait * 1e3,
            f"{name}: {self.wait * 1e3:.0f} ms per request" if slow else "",
            ("read_threads=256, which reads ahead" + (", and PENSTOCK_CACHE_SIZE=50GB" if remote else ""))
            if slow
            else "",
        )
        yield Check(section, "MB/s, one request at a time", self.serial / 1e6)
        yield Check(section, "MB/s, many requests at once", self.concurrent / 1e6)


def read_checks(path: str) -> list[Check]:
    """Measure the reads of a file, a folder, an object or a prefix of objects. Returns the checks.

    Args:
        path: Local path, or a URL of an object store.
    """
    try:
        files = _remote_files(path) if is_remote(path) else _local_files(Path(path))
        if not files:
            return [
                Check(f"reads of {path}", "files", 0, "there are no files to read", "give a path that contains files")
            ]
        return list(measure_reads(path, files).checks())
    except MissingExtraError as error:
        return [Check(f"reads of {path}", "access", "no", str(error).partition("\n")[0], error.command)]
    except OSError as error:
        problem = f"it cannot be read: {error.strerror or error}"
        return [Check(f"reads of {path}", "access", "no", problem, "check the path and its permissions or credentials")]


def measure_reads(path: str, files: Sequence[str]) -> ReadRates:
    """Read files and return the rates. Files that were read before are read from the disk again, if possible.

    Args:
        path: The path to report.
        files: Files or objects, not empty; they are repeated if they are few.

    Raises:
        OSError: A file cannot be read.
    """
    names = itertools.cycle(files)
    serial, many = ([next(names) for _ in range(count)] for count in (_SERIAL, _CONCURRENT))
    _drop_from_page_cache(serial)
    start = time.perf_counter()
    sizes = [_read(name) for name in serial]
    seconds = time.perf_counter() - start
    _drop_from_page_cache(many)
    start = time.perf_counter()
    total = sum(map_or_raise(_read, many))
    return ReadRates(path, seconds / len(serial), sum(sizes) / seconds, total / (time.perf_counter() - start))


def _read(name: str) -> int:
    """Read a file or object. Returns its number of bytes."""
    if is_remote(name):
        result = fetch(ByteRange(name))
        return 0 if result is None else len(result[0])
    return len(read_file(name))


def _local_files(path: Path) -> list[str]:
    if path.is_file():
        return [str(path)]
    if not path.exists():
        raise FileNotFoundError(2, "there is no such file or folder")
    files = (Path(folder, name) for folder, _, names in os.walk(path) for name in sorted(names))
    small = (str(file) for file in files if file.is_file() and 0 < file.stat().st_size <= _MAX_BYTES)
    return list(itertools.islice(small, _SERIAL + _CONCURRENT))


def _remote_files(path: str) -> list[str]:
    try:
        folders, objects = list_prefix(path)
    except OSError:  # web servers have no listings; a missing object fails when it is read
        return [path]
    for folder in folders[:1] if not objects else []:
        objects = list_prefix(f"{path.rstrip('/')}/{folder}")[1]
    return [info.path for info in objects if 0 < info.size <= _MAX_BYTES] or [path]


def _drop_from_page_cache(names: Sequence[str]) -> None:
    """Ask the system to forget the contents of files, so that reading them reaches the disk."""
    if not hasattr(os, "posix_fadvise"):
        return
    for name in {name for name in names if not is_remote(name)}:
        descriptor = os.open(name, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
