"""Arguments of a training, checked before anything runs."""

from __future__ import annotations

import operator
from typing import Any, overload

from penstock.errors import UsageError
from penstock.graph.where import user_line


@overload
def count(name: str, given: None, *, least: int) -> None: ...


@overload
def count(name: str, given: Any, *, least: int) -> int | None: ...


def count(name: str, given: Any, *, least: int) -> int | None:
    """A whole number, or None.

    Args:
        name: what it is called.
        given: what the user gave.
        least: the smallest that means something.

    Raises:
        UsageError: it is neither.

    >>> count("epochs", 3, least=0), count("epochs", None, least=0)
    (3, None)
    """
    if given is None:
        return None
    try:
        whole = None if isinstance(given, bool) else operator.index(given)
    except TypeError:
        whole = None
    if whole is None or whole < least:
        raise UsageError(
            f"{name} is a whole number", given=repr(given), expected=f"at least {least}, or None", where=user_line()
        )
    return whole
