"""Parts of objects that lie near each other, fetched together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array
from penstock.sources.storage.byte_range import ByteRange, ObjectInfo
from penstock.sources.storage.prefetch import ahead

_GAP = 4096
"""Bytes between parts up to which they are fetched together: those of a tar header, say."""

_BLOCK = 1 << 20
"""Bytes of the blocks that are fetched where many parts follow each other: the same ones for any of the parts."""

_MANY = 8
_LONG = 1 << 23

Numbers = NDArray[np.int64]


class RangeReader:
    """Reads parts of objects.

    Args:
        objects: they.
    """

    def __init__(self, objects: Sequence[ObjectInfo]) -> None:
        self._objects = objects

    def coalesced_ranges(self, files: Numbers, starts: Numbers, stops: Numbers) -> list[ByteRange]:
        """What is fetched for some parts, in the order of their places.

        Args:
            files: per part the number of its object.
            starts: its first byte.
            stops: the byte after its last one.
        """
        return [extent for _, extents in self._runs(files, starts, stops) for extent in extents]

    def read(self, files: Numbers, starts: Numbers, stops: Numbers, outs: Sequence[Array]) -> dict[int, OSError]:
        """Read parts into memory.

        Args:
            files: as for `extents`.
            starts: likewise.
            stops: likewise.
            outs: per part its memory, uint8.

        Returns:
            The parts that cannot be read, and why.
        """
        runs = list(self._runs(files, starts, stops))
        wanted = [extent for _, extents in runs for extent in extents]
        fetched = dict(zip(wanted, ahead.read(wanted), strict=True))
        errors: dict[int, OSError] = {}
        for parts, extents in runs:
            for part in parts:
                start, stop = int(starts[part]), int(stops[part])
                for extent in extents:
                    first, last = max(start, extent.start), min(stop, extent.stop or 0)
                    if first >= last:
                        continue
                    data = fetched[extent]
                    if isinstance(data, OSError):
                        errors[part] = data
                    else:
                        outs[part][first - start : last - start] = data[first - extent.start : last - extent.start]
        return errors

    def _runs(self, files: Numbers, starts: Numbers, stops: Numbers) -> Iterator[tuple[list[int], list[ByteRange]]]:
        """Parts that lie near each other, and what is fetched for them."""
        run: list[int] = []
        for part in np.lexsort((starts, files)).tolist():
            if starts[part] == stops[part]:
                continue
            if run and (files[part] != files[run[0]] or starts[part] - stops[run[-1]] > _GAP):
                yield run, self._of_run(run, files, starts, stops)
                run = []
            run.append(part)
        if run:
            yield run, self._of_run(run, files, starts, stops)

    def _of_run(self, run: list[int], files: Numbers, starts: Numbers, stops: Numbers) -> list[ByteRange]:
        found = self._objects[int(files[run[0]])]
        first, last = int(starts[run[0]]), int(stops[run].max())
        if len(run) >= _MANY:
            blocks = range(first - first % _BLOCK, last, _BLOCK)
            return [ByteRange(found.path, at, min(at + _BLOCK, found.size), found.etag) for at in blocks]
        if last - first <= _LONG:
            return [ByteRange(found.path, first, last, found.etag)]
        return [ByteRange(found.path, int(starts[part]), int(stops[part]), found.etag) for part in run]
