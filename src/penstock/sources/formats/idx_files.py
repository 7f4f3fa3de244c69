"""IDX files, the format of MNIST: a header with big-endian sizes, then the values."""

import gzip
import io
import math
import os
import zlib
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from penstock.errors import SourceError, SourceNotFoundError
from penstock.sources.storage.disk_cache import read_bytes
from penstock.sources.storage.local_bytes import open_regular
from penstock.sources.storage.object_store import is_object, is_remote

# Limit of deflate: a match of 258 bytes takes at least two bits. It bounds the size that a header may declare.
_DENSEST = 1032
# Third byte of the magic number. All values are big-endian (http://yann.lecun.com/exdb/mnist, "THE IDX FILE FORMAT").
_DTYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: str | Path) -> np.ndarray[Any, Any]:
    """Read an IDX file, plain or ``.gz``, into an array in native byte order.

    Memory is allocated only if the file can contain what its header declares.

    Raises:
        SourceError: The file is not an IDX file, its length differs from its header, or it cannot be read.
    """
    path = str(path)
    try:
        with io.BytesIO(read_bytes(path)) if is_remote(path) else os.fdopen(open_regular(path)[0], "rb") as raw:
            size = raw.seek(0, io.SEEK_END)
            raw.seek(0)
            if not path.endswith(".gz"):
                return _read(path, raw, size)
            with gzip.open(raw, "rb") as file:
                return _read(path, cast(BinaryIO, file), size * _DENSEST)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SourceError(f"{path} is not a gzip file, or is cut short: {error}") from error
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from error


def _read(path: str, file: BinaryIO, most: int) -> np.ndarray[Any, Any]:
    head = file.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _DTYPES:
        raise SourceError(
            f"{path} is not an IDX file", given=f"first bytes {head.hex(' ')}", expected="00 00, a type, a rank"
        )
    announced = file.read(4 * head[3])
    # A header that is cut short gets sizes that no file can contain, so the test below reports it.
    sizes = np.frombuffer(announced.ljust(4 * head[3], b"\xff"), ">u4").tolist()
    dtype = np.dtype(_DTYPES[head[2]])
    start = 4 + 4 * head[3]
    size = math.prod(sizes) * dtype.itemsize
    data = bytearray()
    if start + size <= most:
        while len(data) < size and (part := file.read(min(size - len(data), 1 << 24))):
            data += part
    # Reading past the last value also makes gzip verify the file's checksum.
    more = len(data) == size and file.read(1) != b""
    if len(data) < size or len(announced) < 4 * head[3] or more:
        raise SourceError(
            f"{path} is {'longer than its header says' if more else 'cut short'}",
            given="more" if more else f"{4 + len(announced) + len(data)} bytes" if data else f"at most {most} bytes",
            expected=f"{start + size} bytes for shape {tuple(sizes)}",
        )
    values = np.frombuffer(data, dtype).reshape(sizes)
    return values if dtype.itemsize == 1 else values.astype(dtype.newbyteorder("="))


def find_idx(folder: str, name: str) -> str:
    """Find the file `name` in `folder`, plain or with ``.gz``.

    Some copies of MNIST have a dot in place of the last dash, as in ``train-images.idx3-ubyte``.

    Raises:
        SourceNotFoundError: The file does not exist.
        SourceError: The folder is in an object store that does not respond.
    """
    for stem in (name, name.replace("-idx", ".idx")):
        for suffix in ("", ".gz"):
            path = f"{folder.rstrip('/')}/{stem}{suffix}"
            if is_object(path) if is_remote(path) else Path(path).is_file():
                return path
    names = sorted(entry.name for entry in Path(folder).iterdir())[:8] if Path(folder).is_dir() else []
    content = (
        f"a folder with {', '.join(names)}" if names else "an empty folder" if Path(folder).is_dir() else "no folder"
    )
    raise SourceNotFoundError(
        f"no file {name} or {name}.gz in {folder}",
        given="an object store" if is_remote(folder) else content,
        fix="pass the folder that contains the four IDX files of the data set",
    )
