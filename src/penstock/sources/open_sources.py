"""Open sources."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any
from weakref import WeakValueDictionary

from penstock.sources.source import T

_open: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()


_lock = threading.RLock()  # a source may share what it opens in turn


def open_shared(open_it: Callable[..., T], *key: Hashable, stamp: Hashable = None) -> T:
    """`open_it(*key)`, or what an earlier call with the same key and stamp opened, if that is still in use.

    A definition is traced once for every shard, and each trace names the same data set: it is opened and listed once,
    and closed when the last graph that reads it is dropped.

    Args:
        open_it: what opens a data set.
        key: its arguments.
        stamp: what tells whether the data set is still the one that was opened; see `stamp_of`.
    """
    with _lock:
        opened = _open.get((open_it, key, stamp))
        if opened is None:
            opened = _open[open_it, key, stamp] = open_it(*key)
        return opened
