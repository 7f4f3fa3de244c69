"""Random access to local files and to objects."""

import io
import os
import weakref
from collections.abc import Hashable
from typing import Any

import numpy as np

from penstock.core import Array, Indices
from penstock.core.positional_io import pread, pread_into
from penstock.errors import SourceError, error_text
from penstock.native.argument_block import address
from penstock.sources.storage import file_loop
from penstock.sources.storage.byte_range import ByteRange, ObjectInfo
from penstock.sources.storage.disk_cache import fetch_cached
from penstock.sources.storage.local_bytes import open_regular
from penstock.sources.storage.object_store import head, is_remote

# Bytes per request of a walk through an object: larger blocks mean fewer waits for the store.
_BLOCK = 1 << 22


class LocalFile:
    """An open local file. A copy in another process, made by pickling, opens the file again.

    Args:
        path: Path of the file.

    Raises:
        OSError: It cannot be opened, or is not a regular file.

    Attributes:
        size: Size in bytes.
        time: Time of modification in nanoseconds.
        state: Value that changes when the file is written.
    """

    def __init__(self, path: str) -> None:
        self._descriptor, status = open_regular(path)
        self._path, self._close = path, weakref.finalize(self, os.close, self._descriptor)
        self.size, self.time = status.st_size, status.st_mtime_ns
        self.tag = ""
        self.state: Hashable = status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size

    def __reduce__(self) -> Any:
        return _opened_again, (self._path, self.state)

    def pread(self, count: int, at: int) -> bytes:
        """Return up to `count` bytes from byte `at`, fewer at the end of the file."""
        return pread(self._descriptor, count, at)

    def fill(self, view: memoryview, at: int) -> None:
        """Fill memory with the bytes from an offset.

        Raises:
            ValueError: The file ends before.
        """
        done = 0
        while done < len(view):
            count = pread_into(self._descriptor, view[done:], at + done)
            if not count:
                raise ValueError(f"the file is cut short: {done} of {len(view)} bytes are left")
            done += count

    def read_ranges(self, starts: Indices, sizes: Indices, places: Indices, out: Array) -> bool:
        """Read ranges of the file in one call.

        Args:
            starts: First byte of each range.
            sizes: Number of bytes of each range.
            places: First byte of each range in `out`.
            out: Memory for all ranges, uint8.

        Returns:
            False if a range cannot be read completely, or if the system has no such call.
        """
        if not file_loop.is_supported():
            return False
        failed = np.zeros(1, np.int64)
        file_loop.read_ranges(self._descriptor, starts, sizes, places, address(out), failed)
        return not failed[0]

    def advise(self, starts: Indices, sizes: Indices) -> None:
        """Announce the next reads to the operating system, so that it starts them all at once."""
        if file_loop.is_supported():  # errors do not matter: not all file systems take advice
            file_loop.advise_ranges(self._descriptor, starts, sizes)

    def raw(self) -> io.RawIOBase:
        """Return the file as one of Python's raw I/O objects, at its beginning. All of them share the position."""
        raw = io.FileIO(self._descriptor, closefd=False)
        raw.seek(0)
        return raw

    def close(self) -> None:
        """Close the file. It is closed with the last reference to it, too."""
        self._close()


def _opened_again(path: str, state: Hashable) -> LocalFile:
    """Return a file in the state in which another process opened it."""
    try:
        file = LocalFile(path)
    except OSError as error:
        raise SourceError(f"{path!r} cannot be read: {error_text(error)}") from error
    if file.state != state:
        raise SourceError(
            f"{path!r} has been written to since it was opened", fix="read a copy, or begin when it is complete"
        )
    return file


class RemoteFile:
    """An object of a store. Holds the block that was read last, for sequential reads.

    Args:
        path: Path of the object.

    Raises:
        OSError: The object does not exist, or the store does not answer.

    Attributes:
        size: Size in bytes.
        tag: ETag.
        state: Value that changes when the object is written.
    """

    def __init__(self, path: str) -> None:
        self._known(head(path))

    def _known(self, info: ObjectInfo) -> None:
        self._path, self.size, self.tag = info.path, info.size, info.etag
        self._block: bytes | memoryview
        self.state: Hashable = info.etag, info.size
        self._start, self._block = 0, b""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_start": 0, "_block": b""}

    def pread(self, count: int, at: int) -> bytes:
        """Return up to `count` bytes from byte `at`, fewer at the end of the file."""
        stop = min(at + count, self.size)
        if at >= stop:
            return b""
        if not (self._start <= at and stop <= self._start + len(self._block)):
            start, end = at, min(max(stop, at + _BLOCK), self.size)
            self._block = fetch_cached(ByteRange(self._path, start, end, self.tag)).data
            self._start = start
        return bytes(self._block[at - self._start : stop - self._start])

    def raw(self) -> io.RawIOBase:
        """Return the object as one of Python's raw I/O objects."""
        return RawFileAdapter(self)

    def close(self) -> None:
        """Release the block."""
        self._block = b""


class FetchedFile(RemoteFile):
    """An object of which some parts are in memory; others are fetched.

    Args:
        info: Path, size and ETag.
        parts: Offset and bytes of each part in memory.
    """

    def __init__(self, info: ObjectInfo, parts: list[tuple[int, Array]]) -> None:
        self._known(info)
        self._parts = parts

    def pread(self, count: int, at: int) -> bytes:
        """Return up to `count` bytes from byte `at`, fewer at the end of the file."""
        for start, data in self._parts:
            if start <= at and at + count <= start + len(data):
                return data[at - start : at - start + count].tobytes()
        return super().pread(count, at)


class RawFileAdapter(io.RawIOBase):
    """Adapter from a remote file to Python's raw I/O interface, with a position."""

    def __init__(self, file: RemoteFile) -> None:
        self._file, self._at = file, 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Change the position. Nothing is read."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read at the position into a buffer, and return the number of bytes."""
        data = self._file.pread(len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


Opened = LocalFile | RemoteFile


def open_file(path: str) -> Opened:
    """Open a local file or an object.

    Raises:
        OSError: It cannot be opened.
    """
    return RemoteFile(path) if is_remote(path) else LocalFile(path)
