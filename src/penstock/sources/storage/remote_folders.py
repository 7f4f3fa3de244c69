"""Prefixes of an object store as folders of files."""

from __future__ import annotations

import os
from collections.abc import Callable

from penstock.sources.storage.byte_range import ObjectInfo
from penstock.sources.storage.object_store import list_prefix, map_concurrently


def subfolders(root: str, wanted: Callable[[bytes], bool]) -> list[tuple[bytes, list[ObjectInfo]]]:
    """List the folders directly below a prefix, sorted by the bytes of their names, with the objects directly in each.

    Args:
        root: The prefix.
        wanted: Returns True for the names of the folders to list.

    Raises:
        OSError: A folder cannot be listed.
    """
    root = root.rstrip("/")
    folders = sorted(name for folder in list_prefix(root)[0] if wanted(name := os.fsencode(folder)))

    def objects(folder: bytes) -> list[ObjectInfo]:
        return list_prefix(f"{root}/{os.fsdecode(folder)}")[1]

    listings = map_concurrently(objects, folders)
    for listing in listings:
        if isinstance(listing, OSError):
            raise listing
    return list(zip(folders, listings, strict=True))
