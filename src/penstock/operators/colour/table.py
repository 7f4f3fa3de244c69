"""Bytes, and what a table has for each."""

from __future__ import annotations

from penstock.data.source import Array
from penstock.native.compiled import Compiled, ahead


@ahead(*(f"u1[1] u{size}[1] u{size}[1]" for size in (1, 4)))
@Compiled
def pick(numbers: Array, entries: Array, out: Array) -> None:
    """The entries that bytes count.

    Args:
        numbers: uint8.
        entries: (256,), unsigned integers, the bits of any dtype.
        out: as many as `numbers`, receives them.
    """
    for i in range(numbers.shape[0]):
        out[i] = entries[numbers[i]]
