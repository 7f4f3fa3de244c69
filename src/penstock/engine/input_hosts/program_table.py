"""Programs of an input host, and which of them it drops.

Trainers do not say that they end, so a program is in use until nobody has requested it for some time. A program in use
is never dropped in favor of another: with one trainer too many, each request would find its program dropped, and the
host would build programs instead of computing rows.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

from penstock.core.dataclass import dataclass
from penstock.engine.host.host_program import HostProgram
from penstock.engine.host.read_ahead import ReadAhead

# Programs that a host keeps if some are idle. Each process of a trainer has one per iterator; one that was dropped is
# built again.
_MAX_PROGRAMS = 16

# Seconds without a request after which a program is idle. A trainer may evaluate or save for minutes.
_IDLE_SECONDS = 600.0

# The same for a program that a newer iterator has described, too. Usually, the older iterator has ended: a training may
# make one for each epoch or evaluation.
_SUPERSEDED_SECONDS = 60.0

_log = logging.getLogger("penstock")


@dataclass(frozen=True)
class HostedProgram:
    """Program that a host computes.

    Args:
        program: The program. Its executor has the host's threads.
        identity: Fingerprints of definition and data, by name.
    """

    program: HostProgram
    identity: Mapping[str, str]


class ProgramEntry:
    """Program of a host, with its read-ahead.

    Args:
        hosted: The program.
        description: Digest of its description, without the iterator.
    """

    def __init__(self, hosted: HostedProgram, description: str) -> None:
        self.hosted, self.read_ahead = hosted, ReadAhead(hosted.program.context)
        self.description = description
        self.used = 0.0
        self.superseded = False

    @property
    def holds_memory(self) -> bool:
        """True if it has a cache in memory, which may be as large as its limit."""
        return any(cache.in_memory for cache in self.hosted.program.context.caches.values())


class ProgramTable:
    """Programs by their keys. Thread-safe.

    When a program is added, idle ones are dropped: those that have caches in memory, those that a program of the same
    description has superseded, and the others as far as there are more than 16 programs, the one that was used first
    before the others.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # In the order of their last use.
        self._entries: OrderedDict[str, ProgramEntry] = OrderedDict()
        self._warned = False

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: str) -> ProgramEntry | None:
        """Return a program, which counts as used now; None if there is none."""
        with self._lock:
            return self._use(key)

    def add(self, key: str, entry: ProgramEntry) -> ProgramEntry:
        """Add a program, unless there is one of this key, and drop idle ones. Returns the program of the key."""
        with self._lock:
            for other in self._entries.values():
                other.superseded = other.superseded or other.description == entry.description
            self._entries.setdefault(key, entry)
            used = self._use(key)
            assert used is not None
            self._drop_idle()
            count = sum(not other.superseded for other in self._entries.values())
            warn = count > _MAX_PROGRAMS and not self._warned
            self._warned = self._warned or warn
        if warn:
            _log.warning(
                "%d programs are in use at the same time. Each has its list of samples and its caches in memory: check "
                "the memory of this process, use fn.cache(path=...), or start more input hosts for fewer trainers each",
                count,
            )
        return used

    def remove(self, key: str) -> None:
        """Remove a program."""
        with self._lock:
            self._entries.pop(key, None)

    def _use(self, key: str) -> ProgramEntry | None:
        entry = self._entries.get(key)
        if entry is not None:
            entry.used = self._clock()
            self._entries.move_to_end(key)
        return entry

    def _drop_idle(self) -> None:
        now = self._clock()
        for key, entry in list(self._entries.items()):
            idle = now - entry.used
            if (entry.superseded and idle >= _SUPERSEDED_SECONDS) or (
                idle >= _IDLE_SECONDS and (entry.holds_memory or len(self._entries) > _MAX_PROGRAMS)
            ):
                del self._entries[key]
