"""Prefixes of an object store as folders of files."""

from __future__ import annotations

import os
from collections.abc import Callable

from penstock.sources.storage.byte_range import Found
from penstock.sources.storage.object_store import listed, several


def subfolders(root: str, wanted: Callable[[bytes], bool]) -> list[tuple[bytes, list[Found]]]:
    """The folders directly below a prefix, sorted by the bytes of their names, with the objects directly in each.

    Args:
        root: the prefix.
        wanted: whether a folder counts, by its name.

    Raises:
        OSError: a folder cannot be listed.
    """
    root = root.rstrip("/")
    folders = sorted(name for folder in listed(root)[0] if wanted(name := os.fsencode(folder)))

    def objects(folder: bytes) -> list[Found]:
        return listed(f"{root}/{os.fsdecode(folder)}")[1]

    found = several(objects, folders)
    for each in found:
        if isinstance(each, OSError):
            raise each
    return list(zip(folders, found, strict=True))
