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

from penstock.core.columns import Array, Column, Indices
from penstock.core.spec import Spec
from penstock.errors import ResourceError, SampleError, SourceError
from penstock.sources.files.file_selection import FileSelection, SelectedFilesSource
from penstock.sources.source import Source

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
        """The bytes of all values."""
        return math.prod(self.shape) * self.dtype.itemsize

    def values(self, data: Array, shape: tuple[int, ...]) -> Array:
        """The values in some bytes, in C order and in the machine's byte order."""
        values = data.view(self.dtype)
        values = values.reshape(shape[::-1]).T if self.fortran else values.reshape(shape)
        return np.ascontiguousarray(values, self.dtype.newbyteorder("=")).reshape(shape)


class NpySource(SelectedFilesSource):
    """The arrays in .npy files, one per sample, in C order and in the machine's byte order.

    Args:
        choice: the files.

    Raises:
        SampleError: the first file cannot be read.
        SourceError: it is no .npy file of booleans or numbers.

    Attributes:
        first: what the header of the first one says.
        begin: where the values begin in it.
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
        """The arrays."""
        contents = zip(indices.tolist(), self.records.attempts(indices), strict=True)
        arrays = [self.array(index, self._whole(index, data)) for index, data in contents]
        return (np.stack(arrays, out=out[0]) if self.specs[0].dense else arrays,)

    def content(self, index: int) -> Array:
        """The bytes of a file, as `read` has them.

        Raises:
            SampleError: it cannot be read.
        """
        (data,) = self.records.attempts(np.array([index]))
        return self._whole(index, data)

    def _whole(self, index: int, data: Array | OSError) -> Array:
        """The bytes of a file, given those that were read, or what went wrong.

        A file may have more bytes than other samples: as many as its header announces.
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
            raise self.unreadable(index, f"is cut short: its header announces {stop} bytes")
        return self._until(index, stop)

    def _until(self, index: int, stop: int) -> Array:
        """The first bytes of a file."""
        (data,) = self.records.ranges(np.array([index]), [0], [stop])
        return self.records.checked(index, data)

    def array(self, index: int, data: Array) -> Array:
        """The array in a file's bytes.

        Raises:
            SampleError: the bytes are no .npy file, or its array has another dtype or rank than the first one's.
        """
        try:
            array = parse_npy(data)
            if not self.specs[0].accepts(array):
                raise ValueError(f"{array.dtype}{list(array.shape)}, where sample 0 has {self.specs[0]}")
        except ValueError as error:
            raise self.unreadable(index, f"is no .npy file that can be read: {error}") from error
        return array

    def unreadable(self, index: int, what: str) -> SampleError:
        """The error for a file that is not what it should be."""
        path = self.describe(index)
        return SampleError.of(index, path, what, path)

    def reads_same_samples(self, other: Source) -> bool:
        """Return True if both read the same files."""
        return isinstance(other, NpySource) and self.records.reads_same_samples(other.records)

    def fingerprint(self) -> str:
        """The names of the files below their common folder."""
        return f"numpy:{self.records.fingerprint()}"


def parse_npy(data: Array) -> Array:
    """The array in the bytes of a .npy file. What follows it is left out, as `numpy.load` does.

    Raises:
        ValueError: the bytes are no such file, are cut short, or hold anything but booleans and numbers.

    >>> import io
    >>> np.save(file := io.BytesIO(), np.asfortranarray([[1, 2], [3, 4]]))
    >>> parse_npy(np.frombuffer(file.getvalue(), np.uint8)).tolist()
    [[1, 2], [3, 4]]
    """
    header, begin = read_npy_header(data)
    if header.nbytes > len(data) - begin:
        raise ValueError(f"it is cut short: {len(data) - begin} of {header.nbytes} bytes are left")
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
