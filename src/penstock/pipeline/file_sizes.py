"""Sizes of the files of data sets, so that a replaced file is noticed when a state is restored."""

import os
from collections.abc import Iterable

import numpy as np

from penstock.core import short_digest
from penstock.sources.source import Source
from penstock.sources.storage.object_store import is_remote

# Number of samples per data set whose files count: looking at millions of files would take minutes on network storage.
_SAMPLES = 256


def file_sizes_digest(sources: Iterable[Source]) -> str:
    """Return a digest of the sizes of local files, of at most 256 evenly spaced samples per source; "" without any."""
    sizes: list[int] = []
    for source in sources:
        count = min(len(source), _SAMPLES)
        indices = dict.fromkeys(np.linspace(0, len(source) - 1, count).astype(np.int64).tolist())
        paths = dict.fromkeys(source.path(index) for index in indices)
        sizes += [_size(path) for path in paths if path is not None and not is_remote(path)]
    return short_digest(np.array(sizes, np.int64)) if sizes else ""


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116  # names need not be valid text
    except (OSError, ValueError):
        return -1
