"""Message about a batch that takes long: the line or the server for which it waits."""

from __future__ import annotations

import threading

from penstock.core.slow_waits import PATIENCE_SECONDS, SlowWait, current_line
from penstock.engine.host.worker_threads import running_threads
from penstock.sources.storage.store_requests import slow_requests


def slow_batch() -> SlowWait:
    """Return a context for the time in which the calling thread gets a batch of the host."""
    consumer = threading.current_thread()
    return SlowWait(lambda: _describe(consumer))


def _describe(consumer: threading.Thread) -> str:
    return f"no batch for {PATIENCE_SECONDS:g} s; it waits for {slow_requests() or _lines(consumer)}"


def _lines(consumer: threading.Thread) -> str:
    """Return the lines of the user's program that compute batches, else those of libraries."""
    threads = running_threads()
    # Without running threads, the consumer computes the batch itself, in the user's innermost line.
    lines = {line: None for thread in threads if (line := current_line(thread, users=True)) is not None}
    lines = lines or {current_line(thread): None for thread in threads or [consumer]}
    return "; ".join(filter(None, list(lines)[:3]))
