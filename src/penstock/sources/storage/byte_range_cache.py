"""Prefetch cache: byte ranges that are fetched before they are read.

Readers announce the ranges of the next batches, and threads fetch them in that order while the budget lasts. A read
waits for a range that is being fetched and fetches a missing one itself, so that prefetching changes neither bytes nor
errors.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

from penstock.core import Array
from penstock.core.slice_recorder import recorded
from penstock.sources.storage.byte_range import ByteRange
from penstock.sources.storage.disk_cache import fetch_cached, lookup_many
from penstock.sources.storage.object_store import is_remote
from penstock.sources.storage.store_requests import map_concurrently

# Bytes to reserve for an object of unknown size: about a photograph. Corrected as soon as the object is there.
_SIZE_ESTIMATE = 1 << 17

# Handing work to a thread takes time, so a thread is handed several short ranges and fetches one after the other. In
# larger groups the last range would wait for many others while threads are idle.
_GROUP_LENGTH, _GROUP_SIZE = 4, 1 << 21

Submit = Callable[..., Future[Any]]


class _Entry:
    """A byte range, the future of its group, and for each request that holds it the function that submits work."""

    __slots__ = ("extent", "future", "holders", "index", "size")

    def __init__(self, extent: ByteRange) -> None:
        self.extent = extent
        self.size = _SIZE_ESTIMATE if extent.stop is None else extent.stop - extent.start
        self.future: Future[list[Array | OSError | None]] | None = None
        self.index = 0  # in the future's result
        self.holders: list[Submit] = []


class PrefetchRequest:
    """Byte ranges of one announcement. The cache holds their bytes until the request is released."""

    def __init__(self, entries: list[_Entry], submit: Submit) -> None:
        self.entries, self.submit = entries, submit


class PrefetchCache:
    """Cache of byte ranges that are announced, being fetched, or in memory.

    Args:
        budget: Limit on the bytes being fetched or held. A single range may exceed it.

    Attributes:
        bytes_held: Number of bytes held or being fetched.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._entries: dict[ByteRange, _Entry] = {}
        self._queue: deque[list[_Entry]] = deque()
        self._abandoned: deque[PrefetchRequest] = deque()
        self.bytes_held = 0
        self._lock = threading.Lock()

    @property
    def is_active(self) -> bool:
        """True if any request is held."""
        return bool(self._entries)

    def prefetch(self, extents: Iterable[ByteRange], submit: Submit) -> PrefetchRequest:
        """Announce byte ranges that will be read after all that were announced before.

        Args:
            extents: The byte ranges.
            submit: Runs a function on a thread that may wait for a store.
        """
        entries: list[_Entry] = []
        group: list[_Entry] | None = None
        size = 0
        with self._lock:
            for extent in extents:
                entry = self._entries.get(extent)
                if entry is None:
                    entry = self._entries[extent] = _Entry(extent)
                    if group is None or len(group) == _GROUP_LENGTH or size + entry.size > _GROUP_SIZE:
                        group, size = [], 0
                        self._queue.append(group)
                    group.append(entry)
                    size += entry.size
                entry.holders.append(submit)
                entries.append(entry)
        self._advance()
        return PrefetchRequest(entries, submit)

    def release(self, request: PrefetchRequest) -> None:
        """Release a request: ranges that no other request holds are dropped, and not fetched if they are not yet."""
        with self._lock:
            self._drop(request)
        self._advance()

    def abandon(self, request: PrefetchRequest) -> None:
        """Release a request from a finalizer.

        The garbage collector may call a finalizer in a thread that holds the lock. The request is then released when
        that thread releases the lock.
        """
        self._abandoned.append(request)
        self._advance()

    def read(self, extents: Sequence[ByteRange]) -> list[Array | OSError]:
        """Return for each byte range its bytes, or the error of fetching it."""
        with self._lock:
            entries = [self._entries.get(extent) for extent in extents]
        self._advance()
        results: list[Any] = [None] * len(extents)
        for place, entry in enumerate(entries):
            if entry is not None and entry.future is not None:
                with contextlib.suppress(CancelledError):
                    results[place] = entry.future.result()[entry.index]
        missing = [place for place, result in enumerate(results) if result is None]
        for place, data in zip(missing, lookup_many([extents[place] for place in missing]), strict=True):
            results[place] = data
        missing = [place for place in missing if results[place] is None]
        far = [place for place in missing if is_remote(extents[place].path)]
        for place, result in zip(far, map_concurrently(fetch_cached, [extents[place] for place in far]), strict=True):
            results[place] = result
        for place in missing:
            if results[place] is None:
                results[place] = _bytes_or_error(extents[place])
        return results

    def _advance(self) -> None:
        """Release abandoned requests, and submit groups while the budget lasts."""
        while self._abandoned or self._can_submit():
            # Whoever holds the lock, perhaps this very thread below a finalizer, calls this again after releasing it.
            if not self._lock.acquire(blocking=False):
                return
            try:
                while self._abandoned:
                    self._drop(self._abandoned.popleft())
                while self._can_submit():
                    self._submit(self._queue.popleft())
            finally:
                self._lock.release()

    def _can_submit(self) -> bool:
        try:
            size = sum(entry.size for entry in self._queue[0])
        except IndexError:  # it is empty, perhaps since another thread took the last group
            return False
        return not self.bytes_held or self.bytes_held + size <= self._budget

    def _submit(self, group: list[_Entry]) -> None:
        entries = [entry for entry in group if entry.holders]
        if not entries:
            return
        future = entries[0].holders[-1](self._fetch_group, entries)
        for index, entry in enumerate(entries):
            entry.future, entry.index = future, index
            self.bytes_held += entry.size

    def _fetch_group(self, entries: Sequence[_Entry]) -> list[Array | OSError | None]:
        """Fetch entries on a thread. The result of an entry that has been released is None."""
        results: list[Array | OSError | None] = []
        for entry in entries:
            data = _bytes_or_error(entry.extent) if entry.holders else None
            results.append(data)
            with self._lock:
                if entry.holders and not isinstance(data, OSError | None):
                    self.bytes_held += len(data) - entry.size
                    entry.size = len(data)
        self._advance()
        return results

    def _drop(self, request: PrefetchRequest) -> None:
        for entry in request.entries:
            entry.holders.remove(request.submit)
            if not entry.holders:
                del self._entries[entry.extent]
                if entry.future is not None:
                    self.bytes_held -= entry.size
        request.entries = []


def _bytes_or_error(extent: ByteRange) -> Array | OSError:
    with recorded("fetch", path=extent.path):
        try:
            return fetch_cached(extent)
        except OSError as error:
            return error


# One cache for all pipelines of the process, so that the budget holds for the process.
ahead = PrefetchCache(1 << 28)
