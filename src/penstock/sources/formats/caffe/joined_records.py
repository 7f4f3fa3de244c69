"""Records for compiled loops: small ones in one memory for one call, large ones in place."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.sources.formats.protobuf_wire import Record

# Average size in bytes up to which records are copied into one buffer and parsed by one call. Larger records are
# parsed in place.
_SMALL = 1 << 14


def scan_joined(scan: Callable[..., Any], records: Sequence[Record], *results: Array) -> list[Array]:
    """Run a loop over records. Returns the memory of each record, to which the offsets in its results refer.

    Args:
        scan: A compiled loop of the bytes of records, one after the other, the end of each, and the results.
        records: The records.
        results: Arrays with a row per record, which the loop writes.
    """
    sizes = np.array(list(map(len, records)))
    if sizes.sum() > _SMALL * len(records):
        data = [np.frombuffer(record, np.uint8) for record in records]
        for row, part in enumerate(data):
            scan(part, sizes[row : row + 1], *[result[row : row + 1] for result in results])
        return data
    joined = np.frombuffer(b"".join(records), np.uint8)
    scan(joined, sizes.cumsum(), *results)
    return [joined] * len(records)
