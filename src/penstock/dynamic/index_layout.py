"""Layout of an indexed tensor."""

from __future__ import annotations

from typing import Any


def kept_letters(layout: str, key: tuple[Any, ...], ndim: int) -> str:
    """Return the letters of the axes that an index keeps.

    Args:
        layout: Letters of the tensor, or "".
        key: The index: integers, which drop an axis, slices, and at most one Ellipsis.
        ndim: Number of axes of the tensor.

    >>> kept_letters("HWC", (..., 0), 3)
    'HW'
    """
    if not layout:
        return ""
    place = key.index(Ellipsis) if Ellipsis in key else len(key)
    missing = ndim - sum(entry is not Ellipsis for entry in key)
    entries = (*key[:place], *[slice(None)] * missing, *key[place + 1 :])
    return "".join(letter for letter, entry in zip(layout, entries, strict=True) if isinstance(entry, slice))
