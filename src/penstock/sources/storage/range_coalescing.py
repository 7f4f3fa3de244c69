"""Range coalescing: neighboring byte ranges of an object are fetched in one request."""

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.core import Array, Indices
from penstock.sources.storage.byte_range import ByteRange, ObjectInfo
from penstock.sources.storage.byte_range_cache import ahead

# Ranges with at most this many bytes between them are fetched together: a tar header and its padding, for example.
_GAP = 4096

# Long runs are fetched in aligned blocks: every read of any part of the run then asks for the same ranges, which the
# caches recognize.
_BLOCK, _BLOCKS_FROM = 1 << 20, 8

# Longer runs of few ranges are fetched range by range, so that the requests can run in parallel.
_LONG = 1 << 23


class RangeReader:
    """Reader of many byte ranges of objects.

    Args:
        objects: The objects.
    """

    def __init__(self, objects: Sequence[ObjectInfo]) -> None:
        self._objects = objects

    def coalesced_ranges(self, files: Indices, starts: Indices, stops: Indices) -> list[ByteRange]:
        """Return the requests for some parts, in the order of their offsets.

        Args:
            files: Per part the number of its object.
            starts: Per part its first byte.
            stops: Per part the byte after its last one.
        """
        return [extent for _, extents in self._runs(files, starts, stops) for extent in extents]

    def read(self, files: Indices, starts: Indices, stops: Indices, outs: Sequence[Array]) -> dict[int, OSError]:
        """Read parts into memory.

        Args:
            files: Same as for `coalesced_ranges`.
            starts: Same as for `coalesced_ranges`.
            stops: Same as for `coalesced_ranges`.
            outs: Per part its memory, uint8.

        Returns:
            The errors of the parts that cannot be read, by part.
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

    def _runs(self, files: Indices, starts: Indices, stops: Indices) -> Iterator[tuple[list[int], list[ByteRange]]]:
        """Yield each run of neighboring parts with its requests."""
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

    def _of_run(self, run: list[int], files: Indices, starts: Indices, stops: Indices) -> list[ByteRange]:
        info = self._objects[int(files[run[0]])]
        first, last = int(starts[run[0]]), int(stops[run].max())
        if len(run) >= _BLOCKS_FROM:
            blocks = range(first - first % _BLOCK, last, _BLOCK)
            return [ByteRange(info.path, at, min(at + _BLOCK, info.size), info.etag) for at in blocks]
        if last - first <= _LONG:
            return [ByteRange(info.path, first, last, info.etag)]
        return [ByteRange(info.path, int(starts[part]), int(stops[part]), info.etag) for part in run]
