"""Registry of open sources."""

import os
import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from penstock.errors import PenstockError, SourceError, error_text

T = TypeVar("T")

# Weak values: a source closes with the last graph that reads it.
_open: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()

# Reentrant: opening one source may open another through `open_shared`.
_lock = threading.RLock()


def open_shared(open_it: Callable[..., T], *key: Hashable, stamp: Hashable = None) -> T:
    """Return `open_it(*key)`, or the result of an earlier call with the same key and stamp if it is still in use.

    A definition is traced once per shard, and every trace names the same data set. Sharing opens and lists it once.

    Args:
        open_it: Opens a data set.
        key: Arguments of `open_it`.
        stamp: Value that changes with the data set, so that a changed one is opened again; see `file_stamps`.

    Raises:
        SourceError: The operating system refuses a file or folder.
    """
    with _lock:
        opened = _open.get((open_it, key, stamp))
        if opened is None:
            try:
                opened = _open[open_it, key, stamp] = open_it(*key)
            except PenstockError:  # some are OSErrors, too
                raise
            except OSError as error:  # such as a folder above the data set that this user may not enter
                name = f"{os.fsdecode(error.filename)!r}" if error.filename else "the data set"
                raise SourceError(f"{name} cannot be read: {error_text(error)}") from error
        return opened
