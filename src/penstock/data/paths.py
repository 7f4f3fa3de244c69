"""Arguments that take a path, or several."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath

Path = str | PathLike[str]


def as_paths(given: Path | Sequence[Path] | None) -> tuple[str, ...]:
    """The paths as texts; none, where nothing is given.

    >>> as_paths("a.tar"), as_paths(["a.tar", "b.tar"]), as_paths(None)
    (('a.tar',), ('a.tar', 'b.tar'), ())
    """
    if not given:
        return ()
    return tuple(fspath(each) for each in ([given] if isinstance(given, str | PathLike) else given))
