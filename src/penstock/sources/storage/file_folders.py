"""Folders of the files of a data set, as a suffix of its fingerprint.

Names alone do not identify ``year=2023/part-0.parquet`` and ``year=2024/part-0.parquet``. Fingerprints of earlier
versions contain names alone, and saved states hold them. A suffix can be removed, so that these states stay valid.
"""

import os
import re
from collections.abc import Iterable, Sequence

from penstock.core import short_digest
from penstock.sources.storage.object_store import is_remote

_SUFFIX = re.compile(r":folders=[0-9a-f]{16}")


def folders_suffix(paths: Sequence[str]) -> str:
    """Return a digest of the files' folders below their common folder; nothing if all files are in one folder."""
    folders = [_folder(path) for path in paths]
    common = os.path.commonpath(folders)
    names = [folder.removeprefix(common).strip("/") for folder in folders]
    return _suffix(names) if any(names) else ""


def combined_folders_suffix(fingerprints: Iterable[str]) -> str:
    """Return the suffix of a data set that is made of others; nothing if none of them has one."""
    suffixes = ["".join(_SUFFIX.findall(fingerprint)) for fingerprint in fingerprints]
    return _suffix(suffixes) if any(suffixes) else ""


def without_folders(fingerprint: str) -> str:
    """Return a fingerprint as earlier versions had it."""
    return _SUFFIX.sub("", fingerprint)


def _suffix(texts: Iterable[str]) -> str:
    digest = short_digest("\0".join(texts))
    return f":folders={digest}"


def _folder(path: str) -> str:
    """Return the absolute path of a file's folder; that of an object begins with its bucket."""
    # A data set may have relative paths beside absolute ones.
    place = f"/{path.partition('://')[2]}" if is_remote(path) else os.path.abspath(path)  # noqa: PTH100  # text
    return place.rpartition("/")[0] or "/"
