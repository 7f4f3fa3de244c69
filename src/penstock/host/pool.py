"""Where host work runs: on threads, or, as the plain twin, at once in the caller."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar

from penstock.errors import ContextError

P = ParamSpec("P")
T = TypeVar("T")


class Pool(Protocol):
    """Runs functions."""

    workers: int

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function; the future holds its result or its exception."""
        ...

    def close(self) -> None:
        """Give up what has not begun, and wait for what has. The pool may be used again."""
        ...

    def abandon(self) -> None:
        """Give up what has not begun, and wait for nothing."""
        ...


class Serial:
    """Runs a function at once, in the thread that submits it."""

    workers = 1

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function now."""
        future: Future[T] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # it is the future's to raise
            future.set_exception(error)
        return future

    def close(self) -> None:
        """There is nothing to end."""

    abandon = close


class Threads:
    """Runs functions on up to `workers` threads, which start with the first function and end with `close`."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._executor: ThreadPoolExecutor | None = None
        self._own: set[int] = set()
        self._lock = threading.Lock()

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function on the next free thread; functions begin in the order in which they came.

        Raises:
            ContextError: the main thread has ended, and Python starts no threads any more.
        """
        with self._lock:
            if self._executor is None:
                own = self._own  # not self: the threads must not keep the pool alive
                self._executor = ThreadPoolExecutor(
                    self.workers, "penstock", initializer=lambda: own.add(threading.get_ident())
                )
            try:
                return self._executor.submit(function, *args, **kwargs)
            except RuntimeError:
                if threading.main_thread().is_alive():
                    raise
                raise ContextError(
                    "a thread asks for batches after the main thread has ended", fix="join the thread before"
                ) from None

    def close(self) -> None:
        """End the threads, and wait for what has begun, unless it is one of them that calls."""
        self._end(wait=threading.get_ident() not in self._own)

    def abandon(self) -> None:
        """End the threads, and wait for nothing.

        For finalizers: the garbage collector runs in any thread, also in one that holds a lock which a thread needs to
        end. To wait there is to wait for ever.
        """
        self._end(wait=False)

    def _end(self, *, wait: bool) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=wait, cancel_futures=True)
            self._own.clear()
