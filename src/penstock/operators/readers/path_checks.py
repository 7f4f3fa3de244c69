"""Checks of lists of files and of their indexes."""

from __future__ import annotations

from collections.abc import Sized

from penstock.errors import DefinitionError


def check_not_empty(**lists: Sized) -> None:
    """Check that lists have entries.

    Args:
        lists: Lists by the names of the user's arguments.

    Raises:
        DefinitionError: One is empty.
    """
    for name, entries in lists.items():
        if not entries:
            raise DefinitionError(f"{name} is empty")


def check_one_per_file(name: str, entries: Sized, files: Sized, fix: str | None = None) -> None:
    """Check that a list has an entry per file.

    Args:
        name: Name of the user's argument, for the message.
        entries: The list.
        files: The files.
        fix: Fix for the message; by default to leave the argument out.

    Raises:
        DefinitionError: The list has another number of entries.
    """
    if len(entries) != len(files):
        raise DefinitionError(
            f"{name} must have one entry per file",
            given=f"{len(entries)} for {len(files)} files",
            fix=fix or f"leave {name} out",
        )
