"""Regions of interest of arrays in .npy files. Reads only the bytes that span the region along the slowest axis."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from penstock.core import Array, Column, Indices, Spec
from penstock.sources.formats.npy.npy_source import Header, NpySource, read_npy_header
from penstock.sources.record_source import RecordSource
from penstock.sources.storage.byte_range import ByteRange

Windows = Sequence[tuple[int, int]]
"""Per axis the first index, and how many; they may lie outside."""


class RegionOfInterest(Protocol):
    """Part of each array to read. Two of them are compared by value."""

    def spec(self, whole: Spec) -> Spec:
        """Return the spec of the parts."""
        ...

    def windows(self, shape: tuple[int, ...]) -> Windows:
        """Return the windows of the part in an array of this shape.

        Raises:
            ValueError: It is out of bounds and the policy forbids that.
        """
        ...

    def fill(self, dtype: np.dtype[Any]) -> Array:
        """Return the fill value outside the array."""
        ...


@dataclass(frozen=True)
class _Slab:
    """Slab of a file that contains the windows: from start to stop along the slowest axis."""

    header: Header
    windows: Windows

    @property
    def axis(self) -> int:
        """The slowest axis in the file."""
        return len(self.header.shape) - 1 if self.header.fortran else 0

    @property
    def bounds(self) -> tuple[int, int]:
        """Start and stop of the slab."""
        return _inside(self.windows[self.axis], self.header.shape[self.axis])

    @property
    def places(self) -> tuple[int, int]:
        """Byte range of the slab, relative to the first value."""
        step = self.header.nbytes // max(self.header.shape[self.axis], 1)
        start, stop = self.bounds
        return start * step, stop * step


class NpyRoiSource(RecordSource[NpySource]):
    """Regions of arrays, with the semantics of `fn.slice`.

    Some files are read completely: scalars, files whose header differs in length from the first file's, and files that
    are shorter than their header says. Results and errors are therefore the same as when complete files are sliced.

    Args:
        whole: Source of the complete arrays.
        part: Region to read.
    """

    def __init__(self, whole: NpySource, part: RegionOfInterest) -> None:
        super().__init__(whole, (part,))
        self._part = part
        self.specs = (part.spec(whole.specs[0]),)
        self._fill = part.fill(whole.specs[0].dtype)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Return the regions, in two rounds of reads: the headers, then the slabs."""
        files, begin = self.records.records, self.records.begin
        heads = files.ranges(indices, [0] * len(indices), [begin] * len(indices))
        slabs = [self._slab(index, head) for index, head in zip(indices.tolist(), heads, strict=True)]
        places = [(0, 0) if slab is None else slab.places for slab in slabs]
        data = files.ranges(indices, [begin + start for start, _ in places], [begin + stop for _, stop in places])
        parts = [self._cut(*item) for item in zip(indices.tolist(), slabs, places, data, strict=True)]
        return (np.stack(parts, out=out[0]) if self.specs[0].dense else parts,)

    def _slab(self, index: int, head: Array | Exception) -> _Slab | None:
        """Return the slab of a file to read; None to read the whole file."""
        if isinstance(head, Exception):
            return None
        try:
            header, begin = read_npy_header(head)
        except ValueError:
            return None
        shape, spec = header.shape, self.records.specs[0]
        alike = header.dtype.newbyteorder("=") == spec.dtype and len(shape) == len(spec.shape) > 0
        if not alike or begin != self.records.begin or self.records.records.is_shorter(index, begin + header.nbytes):
            return None
        return _Slab(header, self._windows(index, shape))

    def _windows(self, index: int, shape: tuple[int, ...]) -> Windows:
        try:
            return self._part.windows(shape)
        except ValueError as error:
            raise self.sample_error(index, f"has no such part: {error}") from error

    def _cut(self, index: int, slab: _Slab | None, places: tuple[int, int], data: Array | Exception) -> Array:
        if slab is None or isinstance(data, Exception) or len(data) < places[1] - places[0]:
            array = self.records.array(index, self.records.content(index))
            return _part(array, self._windows(index, array.shape), self._fill)
        shape, windows = list(slab.header.shape), list(slab.windows)
        start, stop = slab.bounds
        shape[slab.axis] = stop - start
        windows[slab.axis] = windows[slab.axis][0] - start, windows[slab.axis][1]
        return _part(slab.header.values(data, tuple(shape)), windows, self._fill)

    def byte_ranges(self, indices: Indices) -> list[ByteRange]:
        """Return byte ranges in object stores, on the assumption that all files resemble the first."""
        files, begin, first, count = self.records.records, self.records.begin, self.records.first, len(indices)
        ranges = files.range_needs(indices, [0] * count, [begin] * count)
        if not ranges or not first.shape:
            return ranges
        try:
            start, stop = _Slab(first, self._part.windows(first.shape)).places
        except ValueError:
            return ranges
        return [*ranges, *files.range_needs(indices, [begin + start] * count, [begin + stop] * count)]

    def fingerprint(self) -> str:
        """Return the fingerprint of the files."""
        # The definition identifies the part.
        return self.records.fingerprint()


def _inside(window: tuple[int, int], extent: int) -> tuple[int, int]:
    """Clip a window to an array, as start and stop."""
    start = min(max(window[0], 0), extent)
    return start, max(start, min(sum(window), extent))


def _part(array: Array, windows: Windows, fill: Array) -> Array:
    """Return the windows of an array as a contiguous array; positions outside `array` get the fill value."""
    inner = [_inside(window, extent) for window, extent in zip(windows, array.shape, strict=True)]
    cut = array[tuple(slice(*item) for item in inner)]
    shape = tuple(length for _, length in windows)
    if cut.shape == shape:
        return np.ascontiguousarray(cut).reshape(shape)
    part = np.full(shape, fill, array.dtype)
    places = [(start - first, stop - first) for (start, stop), (first, _) in zip(inner, windows, strict=True)]
    if cut.size:
        part[tuple(slice(*item) for item in places)] = cut
    return part
