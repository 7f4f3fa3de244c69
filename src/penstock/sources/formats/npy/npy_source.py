"""NumPy files: one array each, after a header with its dtype and shape.

The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

import ast
import functools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from penstock.core import Array, Column, Indices, Spec
from penstock.errors import ResourceError, SourceError
from penstock.sources.files.file_selection import FileSelection, SelectedFilesSource

_MAGIC = b"\x93NUMPY"
_LONGEST = 10_000
"""Bytes of a header, at most: as many as NumPy reads."""


@dataclass(frozen=True)
class Header:
    """Header of a .npy file."""

    dtype: np.dtype[Any]
    fortran: bool
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Size of all values in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def values(self, data: Array, shape: tuple[int, ...]) -> Array:
        """Return the values in `data` as an array of `shape`, in C order and native byte order."""
        values = data.view(self.dtype)
        values = values.reshape(shape[::-1]).T if self.fortran else values.reshape(shape)
        return np.ascontiguousarray(values, self.dtype.newbyteorder("=")).reshape(shape)


class NpySource(SelectedFilesSource):
    """Arrays in .npy files, one per sample, in C order and native byte order.

    Args:
        choice: Files to read.

    Raises:
        SampleError: The first file cannot be read.
        SourceError: The first file is not a .npy file of booleans or numbers.

    Attributes:
        first: Header of the first file.
        begin: Offset of the values in the first file.
    """

    def __init__(self, choice: FileSelection) -> None:
        super().__init__(choice)
        try:
            content = self.content(0)
            array = parse_npy(content)
        except ValueError as error:
            raise SourceError(f"{self.describe(0)} is no .npy file that can be read: {error}") from error
        self.first, self.begin = read_npy_header(content)
        self.specs = (Spec(array.dtype, (None,) * array.ndim),)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Return the arrays."""
        contents = zip(indices.tolist(), self.records.attempts(indices), strict=True)
        arrays = [self.array(index, self._whole(index, data)) for index, data in contents]
        return (np.stack(arrays, out=out[0]) if self.specs[0].dense else arrays,)

    def content(self, index: int) -> Array:
        """Return the bytes of a file.

        Raises:
            SampleError: The file cannot be read.
        """
        (data,) = self.records.attempts(np.array([index]))
        return self._whole(index, data)

    def _whole(self, index: int, data: Array | OSError) -> Array:
        """Return the bytes of a file from the result of reading it.

        Files above the maximum size of a sample are read again, up to the size in their header.
        """
        if not isinstance(data, ResourceError):
            return self.records.checked(index, data)
        head = self._until(index, _LONGEST)
        try:
            header, begin = read_npy_header(head)
        except ValueError:
            return head  # which says what is wrong with it
        stop = begin + header.nbytes
        if self.records.is_shorter(index, stop):
            raise self.sample_error(index, f"is cut short: its header announces {stop} bytes")
        return self._until(index, stop)

    def _until(self, index: int, stop: int) -> Array:
        """Return the first `stop` bytes of a file."""
        (data,) = self.records.ranges(np.array([index]), [0], [stop])
        return self.records.checked(index, data)

    def array(self, index: int, data: Array) -> Array:
        """Parse the bytes of a file.

        Raises:
            SampleError: The bytes are not a .npy file, or the array differs in dtype or rank from the first.
        """
        try:
            array = parse_npy(data)
            if not self.specs[0].accepts(array):
                raise ValueError(f"{array.dtype}{list(array.shape)}, where sample 0 has {self.specs[0]}")
        except ValueError as error:
            raise self.sample_error(index, f"is no .npy file that can be read: {error}") from error
        return array

    def fingerprint(self) -> str:
        """Return a text with the names of the files below their common folder."""
        return f"numpy:{self.records.fingerprint()}"


def parse_npy(data: Array, *, whole: bool = False) -> Array:
    """Parse a .npy file.

    Args:
        data: Bytes of the file.
        whole: True to refuse bytes after the array. Otherwise they are ignored, as by `numpy.load`.

    Raises:
        ValueError: The bytes are not a .npy file, are cut short or too many, or contain other types than booleans and
            numbers.

    >>> import io
    >>> np.save(file := io.BytesIO(), np.asfortranarray([[1, 2], [3, 4]]))
    >>> parse_npy(np.frombuffer(file.getvalue(), np.uint8)).tolist()
    [[1, 2], [3, 4]]
    """
    header, begin = read_npy_header(data)
    if header.nbytes > len(data) - begin:
        raise ValueError(f"it is cut short: {len(data) - begin} of {header.nbytes} bytes are left")
    if whole and (surplus := len(data) - begin - header.nbytes):
        raise ValueError(f"{surplus} bytes follow the array of {header.nbytes} bytes")
    return header.values(data[begin : begin + header.nbytes], header.shape)


def read_npy_header(data: Array) -> tuple[Header, int]:
    """Parse the header of a .npy file, and return it with the offset of the values.

    Raises:
        ValueError: The bytes are not a .npy file, or end within the header.
    """
    start = data[:12].tobytes()
    if start[:6] != _MAGIC or len(start) < 10 or start[6] not in (1, 2, 3):
        raise ValueError(f"it begins with {start[:8]!r}, not with {_MAGIC!r} and a version up to 3")
    wide = 2 if start[6] == 1 else 4
    begin = 8 + wide
    size = int.from_bytes(start[8:begin], "little")
    if size > min(_LONGEST, len(data) - begin):
        raise ValueError(f"a header of {size} bytes in a file of {len(data)}; at most {_LONGEST} are read")
    return _parse_header(data[begin : begin + size].tobytes()), begin + size


@functools.lru_cache(maxsize=256)  # files of one data set have few headers
def _parse_header(text: bytes) -> Header:
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
    return Header(np.dtype(descr), fortran, tuple(extents))
