"""Bytes of objects that are fetched before they are asked for.

What will be read is announced, and threads fetch it in that order while there is room. A read waits for what is on its
way, and fetches at once what is not: whatever is announced, the bytes and the errors are the same.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

from penstock.core.columns import Array
from penstock.sources.storage.byte_range import ByteRange
from penstock.sources.storage.disk_cache import fetch_cached, fetch_many, lookup_many
from penstock.sources.storage.object_store import can_batch, close_idle, is_remote, map_concurrently

_GUESS = 1 << 17
"""Bytes of an object of which no size is known."""
_IN_TURN, _TOGETHER = 4, 16
"""How many short extents a thread is given: each time costs. More, where it asks for all of them at once."""
_SHORT = 1 << 21
"""Bytes of all of them."""


class FetchThreads:
    """Threads that may wait for a store.

    Args:
        submit: runs a function on the next free one.
        count: how many they are, and how many extents are asked for at once, at most; but always those of one group.
    """

    def __init__(self, submit: Callable[..., Future[Any]], count: int) -> None:
        self.submit = submit
        self.turns = threading.Semaphore(max(1, count // _TOGETHER))


class _Entry:
    __slots__ = ("extent", "fetching", "holders", "place", "size")

    def __init__(self, extent: ByteRange) -> None:
        self.extent = extent
        self.size = _GUESS if extent.stop is None else extent.stop - extent.start
        self.fetching: Future[list[Array | OSError | None]] | None = None
        self.place = 0  # in what that gives
        self.holders: list[FetchThreads] = []  # per announcement who fetches it


class _Group:
    """What one thread fetches: an extent, and those that follow while they are short."""

    __slots__ = ("entries", "size", "together")

    def __init__(self, entry: _Entry) -> None:
        self.entries = [entry]
        self.size = entry.size
        self.together = can_batch(entry.extent)  # all of it at once

    def takes(self, entry: _Entry) -> bool:
        """Add another extent, if there is room for it."""
        most = _TOGETHER if self.together else _IN_TURN
        fits = len(self.entries) < most and self.size + entry.size <= _SHORT
        if not fits or can_batch(entry.extent) != self.together:
            return False
        self.entries.append(entry)
        self.size += entry.size
        return True


class PrefetchRequest:
    """Extents that will be read. Their bytes are held until it is released."""

    def __init__(self, entries: list[_Entry], readers: FetchThreads) -> None:
        self.entries, self.readers = entries, readers


class PrefetchCache:
    """What is announced, on its way, or there.

    Args:
        budget: how many bytes are fetched or held at most; a single extent may be larger.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._entries: dict[ByteRange, _Entry] = {}
        self._waiting: deque[_Group] = deque()
        self._released: deque[PrefetchRequest] = deque()
        self._held = 0
        self._lock = threading.Lock()

    @property
    def is_active(self) -> bool:
        """Whether anything is announced."""
        return bool(self._entries)

    @property
    def bytes_held(self) -> int:
        """How many bytes are held or on their way."""
        return self._held

    def prefetch(self, extents: Iterable[ByteRange], readers: FetchThreads) -> PrefetchRequest:
        """Say what will be read next, after all that was announced before.

        Args:
            extents: what.
            readers: who fetches it.
        """
        entries: list[_Entry] = []
        group: _Group | None = None
        with self._lock:
            for extent in extents:
                entry = self._entries.get(extent)
                if entry is None:
                    entry = self._entries[extent] = _Entry(extent)
                    if group is None or not group.takes(entry):
                        group = _Group(entry)
                        self._waiting.append(group)
                entry.holders.append(readers)
                entries.append(entry)
        self._go_on()
        return PrefetchRequest(entries, readers)

    def release(self, announcement: PrefetchRequest) -> None:
        """Forget an announcement: from now on, nothing begins for its sake."""
        with self._lock:
            self._forget(announcement)
        self._go_on()

    def abandon(self, announcement: PrefetchRequest) -> None:
        """The same for finalizers, which may run in a thread that holds the lock: at once, or when it lets go."""
        self._released.append(announcement)
        self._go_on()

    def read(self, extents: Sequence[ByteRange]) -> list[Array | OSError]:
        """The bytes of each extent, or what went wrong with it."""
        with self._lock:
            found = [self._entries.get(extent) for extent in extents]
        self._go_on()
        results: list[Any] = [None] * len(extents)
        for place, entry in enumerate(found):
            if entry is not None and entry.fetching is not None:
                with contextlib.suppress(CancelledError):
                    results[place] = entry.fetching.result()[entry.place]
        missing = [place for place, result in enumerate(results) if result is None]
        for place, data in zip(missing, lookup_many([extents[place] for place in missing]), strict=True):
            results[place] = data
        missing = [place for place in missing if results[place] is None]
        far = [place for place in missing if is_remote(extents[place].path)]
        for place, result in zip(far, map_concurrently(fetch_cached, [extents[place] for place in far]), strict=True):
            results[place] = result
        for place in missing:
            if results[place] is None:
                results[place] = _or_error(extents[place])
        return results

    def _go_on(self) -> None:
        """Forget what was released, and begin what there is room for."""
        while self._released or self._may_begin():
            if not self._lock.acquire(blocking=False):  # whoever has it, perhaps this very thread, sees to it
                return
            try:
                while self._released:
                    self._forget(self._released.popleft())
                while self._may_begin():
                    self._begin(self._waiting.popleft())
            finally:
                self._lock.release()

    def _may_begin(self) -> bool:
        if not self._waiting:
            return False
        try:
            size = self._waiting[0].size
        except IndexError:  # another thread has taken it
            return False
        return not self._held or self._held + size <= self._budget

    def _begin(self, group: _Group) -> None:
        entries = [entry for entry in group.entries if entry.holders]
        if not entries:
            return
        readers = entries[0].holders[-1]
        fetching = readers.submit(self._fetched, entries, readers.turns if group.together else None)
        for place, entry in enumerate(entries):
            entry.fetching, entry.place = fetching, place
            self._held += entry.size

    def _fetched(self, entries: Sequence[_Entry], turns: threading.Semaphore | None) -> list[Array | OSError | None]:
        answers: dict[ByteRange, Array | None] = {}
        if turns is not None:
            with turns:
                wanted = [entry.extent for entry in entries if entry.holders]
                answers = dict(zip(wanted, fetch_many(wanted), strict=True))
        results: list[Array | OSError | None] = []
        for entry in entries:
            data = answers.get(entry.extent)
            if data is None and entry.holders:
                data = _or_error(entry.extent)
            results.append(data)
            with self._lock:
                if entry.holders and not isinstance(data, OSError | None):
                    self._held += len(data) - entry.size
                    entry.size = len(data)
        self._go_on()
        self._close_idle()
        return results

    def _forget(self, announcement: PrefetchRequest) -> None:
        for entry in announcement.entries:
            entry.holders.remove(announcement.readers)
            if not entry.holders:
                del self._entries[entry.extent]
                if entry.fetching is not None:
                    self._held -= entry.size
        announcement.entries = []
        self._close_idle()

    def _close_idle(self) -> None:
        """Keep no connections for nothing."""
        if not self._entries:
            close_idle()


def _or_error(extent: ByteRange) -> Array | OSError:
    try:
        return fetch_cached(extent)
    except OSError as error:
        return error


ahead = PrefetchCache(1 << 28)
"""That of the process."""
