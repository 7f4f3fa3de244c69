"""Messages about waits that take long: for a user's function, a server, or other processes."""

from __future__ import annotations

import logging
import os
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable

from penstock.core.tracebacks import PACKAGE

_log = logging.getLogger("penstock")

PATIENCE_SECONDS = 10.0
"""Duration of a wait after which it is reported, once."""

process_name = ""
"""Beginning of the messages: the number of this process in its job, as in "process 1 of 2: ". Empty outside of jobs."""

# Periods without a wait after which the watching thread ends; the next wait starts another one.
_IDLE_PERIODS = 30


class SlowWait:
    """Context of a wait that is logged if it takes longer than `PATIENCE_SECONDS`.

    Only the outermost wait of a thread is logged, since it is the one in the user's terms.

    Args:
        describe: Returns the message. Called in another thread while the wait goes on.
    """

    __slots__ = ("_begin", "_describe", "_thread")

    def __init__(self, describe: Callable[[], str]) -> None:
        self._describe = describe

    def __enter__(self) -> None:
        self._thread = threading.get_ident()
        self._begin = time.monotonic()
        if _waits.setdefault(self._thread, self) is self:
            _ensure_watched()

    def __exit__(self, *error: object) -> None:
        if _waits.get(self._thread) is self:
            del _waits[self._thread]

    def report(self) -> None:
        """Log the wait if it is slow, once."""
        if time.monotonic() - self._begin >= PATIENCE_SECONDS:
            self._begin = float("inf")
            _log.warning("%s%s", process_name, self._describe())


# By thread. A wait is added and removed without a lock: each costs less than a microsecond, and a batch may be small.
_waits: dict[int, SlowWait] = {}
_watcher: threading.Thread | None = None
_lock = threading.Lock()


def _ensure_watched() -> None:
    global _watcher  # noqa: PLW0603  # one thread per process
    if _watcher is None:
        with _lock:
            if _watcher is None:
                # Not named like the threads of iterators, which end with them.
                _watcher = threading.Thread(target=_watch, name="slow waits of penstock", daemon=True)
                try:
                    _watcher.start()
                except RuntimeError:  # the program is ending, or the system has no thread left
                    _watcher = None


def _watch() -> None:
    global _watcher  # noqa: PLW0603  # the thread forgets itself
    idle = 0
    while idle < _IDLE_PERIODS:
        time.sleep(PATIENCE_SECONDS / 10)
        waits = list(_waits.values())
        idle = 0 if waits else idle + 1
        for wait in waits:
            wait.report()
    _watcher = None


def _forget() -> None:
    global _watcher  # noqa: PLW0603  # in a forked child, without other threads
    _waits.clear()
    _watcher = None


# A forked child has none of the threads. Windows has no forks.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def current_line(thread: threading.Thread, *, users: bool = False) -> str | None:
    """Return the line of the user's program that a thread executes, or the innermost line of a library.

    Args:
        thread: The thread.
        users: True to return None if the thread executes no line of the user's program.
    """
    # not available in every implementation of Python
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # documented
    inner = frame = frames.pop(thread.ident or 0, None)
    frames.clear()  # it contains this very frame, which would keep itself alive
    libraries = (PACKAGE, "<frozen", *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))
    while frame is not None and frame.f_code.co_filename.startswith(libraries):
        frame = frame.f_back
    if frame is None and users:
        return None
    frame = frame or inner
    return "".join(traceback.format_stack(frame, 1)).strip() if frame is not None else "it has just returned"
