"""Records for compiled loops: small ones in one memory for one call, large ones in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from penstock.core import Array, Indices
from penstock.sources.formats.protobuf_wire import Record

# Average size in bytes up to which records are copied into one buffer and parsed by one call. Larger records are
# parsed in place.
_SMALL = 1 << 14


class JoinedRecords(Sequence[Record]):
    """Records in one memory, one after the other.

    Args:
        data: uint8, the records.
        ends: End of each record.
    """

    def __init__(self, data: Array, ends: Indices) -> None:
        self.data, self.ends = data, ends

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, number: int) -> Record: ...
    @overload
    def __getitem__(self, number: slice) -> list[Record]: ...
    def __getitem__(self, number: int | slice) -> Record | list[Record]:
        if isinstance(number, slice):
            return list(self)[number]
        place = range(len(self))[number]
        start = int(self.ends[place - 1]) if place else 0
        return self.data.data[start : int(self.ends[place])]

    def __iter__(self) -> Iterator[Record]:
        view, start = self.data.data, 0
        for end in self.ends.tolist():
            yield view[start:end]
            start = end


def scan_joined(scan: Callable[..., Any], records: Sequence[Record], *results: Array) -> list[Array]:
    """Run a loop over records. Returns the memory of each record, to which the offsets in its results refer.

    Args:
        scan: A compiled loop of the bytes of records, one after the other, the end of each, and the results.
        records: The records.
        results: Arrays with a row per record, which the loop writes.
    """
    if isinstance(records, JoinedRecords):
        scan(records.data, records.ends, *results)
        return [records.data] * len(records)
    sizes = np.array(list(map(len, records)))
    if sizes.sum() > _SMALL * len(records):
        data = [np.frombuffer(record, np.uint8) for record in records]
        for row, part in enumerate(data):
            scan(part, sizes[row : row + 1], *[result[row : row + 1] for result in results])
        return data
    joined = np.frombuffer(b"".join(records), np.uint8)
    scan(joined, sizes.cumsum(), *results)
    return [joined] * len(records)
