"""IDX, the format of the MNIST files: a header of big-endian sizes, then the values."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from penstock.errors import SourceError, SourceNotFoundError

_DTYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: Path) -> np.ndarray[Any, Any]:
    """The array in an IDX file, in the machine's byte order. A plain file is mapped, a ``.gz`` one unpacked to memory.

    Raises:
        SourceError: the file is no IDX file, or shorter than its header says.
    """
    if path.suffix == ".gz":
        try:
            data = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise SourceError(f"{path} is no gzip file, or is cut short: {error}") from error
    elif path.stat().st_size:
        data = np.memmap(path, np.uint8, mode="r").view(np.ndarray)
    else:
        data = np.empty(0, np.uint8)
    head = bytes(data[:4])
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _DTYPES:
        raise SourceError(
            f"{path} is no IDX file", given=f"first bytes {head.hex(' ')}", expected="00 00, a type, a rank"
        )
    start = 4 + 4 * head[3]
    sizes = np.frombuffer(bytes(data[4:start]).ljust(4 * head[3], b"\0"), ">u4").tolist()
    dtype = np.dtype(_DTYPES[head[2]])
    stop = start + math.prod(sizes) * dtype.itemsize
    if len(data) < stop:
        raise SourceError(
            f"{path} is cut short",
            given=f"{len(data)} bytes",
            expected=f"{stop} bytes for shape {tuple(sizes)}",
        )
    values = data[start:stop].view(dtype).reshape(sizes)
    return values if dtype.itemsize == 1 else values.astype(dtype.newbyteorder("="))


def find_idx(folder: Path, name: str) -> Path:
    """The file `name` in `folder`, plain or with ``.gz``; also with the dot that some copies have for the last dash.

    Raises:
        SourceNotFoundError: there is none.
    """
    for stem in (name, name.replace("-idx", ".idx")):
        for suffix in ("", ".gz"):
            path = folder / (stem + suffix)
            if path.is_file():
                return path
    raise SourceNotFoundError(
        f"no file {name} or {name}.gz in {folder}",
        given="a folder with " + (", ".join(sorted(p.name for p in folder.iterdir())[:8]) or "nothing in it")
        if folder.is_dir()
        else "a path that is no folder",
        fix="give the folder that holds the four IDX files of the data set",
    )
