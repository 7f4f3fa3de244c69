"""NumPy's files: an array each, with a header that tells its dtype and shape.

The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from penstock.data.file_lists import from_files, from_names
from penstock.data.files import FileSource
from penstock.data.folders import from_tree
from penstock.data.order import Indices
from penstock.data.source import Array, Column, Cost, Source
from penstock.data.spec import Spec
from penstock.data.stores.extent import Extent
from penstock.errors import SampleError, SourceError

_MAGIC = b"\x93NUMPY"
_LONGEST = 10_000
"""Bytes of a header, at most: as many as NumPy reads."""


@dataclass(frozen=True)
class _Header:
    dtype: np.dtype[Any]
    fortran: bool
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class NpySource(Source):
    """The arrays in .npy files, one per sample, in C order and in the machine's byte order.

    Args:
        files: the files, with any labels.
        folder: what stands before the names of files that lie in no folder of their own, as DALI tells them.

    Raises:
        SampleError: the first file cannot be read.
        SourceError: it is no .npy file of booleans or numbers.
    """

    def __init__(self, files: FileSource, folder: str = "") -> None:
        self._files, self._folder = files, folder
        try:
            first = parse_npy(files.content(0))
        except ValueError as error:
            raise SourceError(f"{files.describe(0)} is no .npy file that can be read: {error}") from error
        self.specs = (Spec(first.dtype, (None,) * first.ndim),)

    def __len__(self) -> int:
        return len(self._files)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """The arrays."""
        contents = self._files.contents(indices)
        arrays = [self._array(index, data) for index, data in zip(indices.tolist(), contents, strict=True)]
        return (np.stack(arrays, out=out[0]) if self.specs[0].dense else arrays,)

    def _array(self, index: int, data: Array) -> Array:
        try:
            array = parse_npy(data)
            if not self.specs[0].accepts(array):
                raise ValueError(f"{array.dtype}{list(array.shape)}, where sample 0 has {self.specs[0]}")
        except ValueError as error:
            path = self.describe(index)
            what = f"sample {index} ({path}) is no .npy file that can be read: {error}"
            raise SampleError(what, index=index, source=path, path=path) from error
        return array

    @property
    def cost(self) -> Cost:
        """What reading costs."""
        return self._files.cost

    def needs(self, indices: Indices) -> list[Extent]:
        """What is fetched from object stores for some samples."""
        return self._files.needs(indices)

    def describe(self, index: int) -> str:
        """The file's path."""
        return self._files.describe(index)

    def info(self, index: int) -> str:
        """The file's path as the data set has it."""
        name = self._files.info(index)
        return name if "/" in name else self._folder + name

    def same_data(self, other: Source) -> bool:
        """Whether the same files are read."""
        return isinstance(other, NpySource) and self._files.same_data(other._files)  # noqa: SLF001  # one class

    def fingerprint(self) -> str:
        """The names of the files below their common folder."""
        return f"numpy:{self._files.fingerprint()}"


def parse_npy(data: Array) -> Array:
    """The array in the bytes of a .npy file. What follows it is left out, as `numpy.load` does.

    Raises:
        ValueError: the bytes are no such file, are cut short, or hold something else than booleans and numbers.

    >>> import io
    >>> np.save(file := io.BytesIO(), np.asfortranarray([[1, 2], [3, 4]]))
    >>> parse_npy(np.frombuffer(file.getvalue(), np.uint8)).tolist()
    [[1, 2], [3, 4]]
    """
    start = data[:12].tobytes()
    if start[:6] != _MAGIC or len(start) < 10 or start[6] not in (1, 2, 3):
        raise ValueError(f"it begins with {start[:8]!r}, not with {_MAGIC!r} and a version up to 3")
    wide = 2 if start[6] == 1 else 4
    begin = 8 + wide
    size = int.from_bytes(start[8:begin], "little")
    if size > min(_LONGEST, len(data) - begin):
        raise ValueError(f"a header of {size} bytes in a file of {len(data)}; at most {_LONGEST} are read")
    header = _parse_header(data[begin : begin + size].tobytes())
    begin += size
    if header.nbytes > len(data) - begin:
        raise ValueError(f"it is cut short: {len(data) - begin} of {header.nbytes} bytes are left")
    values = data[begin : begin + header.nbytes].view(header.dtype)
    values = values.reshape(header.shape[::-1]).T if header.fortran else values.reshape(header.shape)
    return np.ascontiguousarray(values, header.dtype.newbyteorder("=")).reshape(header.shape)


@functools.lru_cache(maxsize=256)  # files of one data set have few headers
def _parse_header(text: bytes) -> _Header:
    try:
        fields: Any = ast.literal_eval(text.decode("latin-1").strip())
        descr, fortran, shape = fields["descr"], fields["fortran_order"], fields["shape"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        raise ValueError("its header is no dictionary with descr, fortran_order and shape") from None
    if not isinstance(descr, str) or not re.fullmatch(r"[<>=|]?(b1|[iu][1248]|f[248])", descr):
        raise ValueError(f"its dtype is {descr!r}, and only booleans, integers and floats are read")
    extents: list[Any] = list(cast(tuple[Any, ...], shape)) if isinstance(shape, tuple) else [None]
    if not isinstance(fortran, bool) or any(type(extent) is not int or extent < 0 for extent in extents):
        raise ValueError(f"its header gives fortran_order {fortran!r} and shape {shape!r}")
    return _Header(np.dtype(descr), fortran, tuple(extents))


def npy_tree(root: str, file_filter: str) -> NpySource:
    """The files in a folder and in the folders directly below it; see `from_tree`."""
    return NpySource(from_tree(root, file_filter), "./")


def npy_files(root: str, files: tuple[str, ...]) -> NpySource:
    """The files named, relative to `root`; see `from_files`."""
    return NpySource(from_files(root, files, None))


def npy_list(list_path: str, root: str | None) -> NpySource:
    """The files that a text file lists, a path per line; see `from_names`."""
    return NpySource(from_names(list_path, root))
