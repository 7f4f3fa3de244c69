"""Where host work runs: on threads, or, as the plain twin, at once in the caller."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar

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


class Threads:
    """Runs functions on up to `workers` threads, which start with the first function and end with `close`."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._executor: ThreadPoolExecutor | None = None
        self._own: set[int] = set()
        self._lock = threading.Lock()

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function on the next free thread; functions begin in the order in which they came."""
        with self._lock:
            if self._executor is None:
                own = self._own  # not self: the threads must not keep the pool alive
                self._executor = ThreadPoolExecutor(
                    self.workers, "penstock", initializer=lambda: own.add(threading.get_ident())
                )
            return self._executor.submit(function, *args, **kwargs)

    def close(self) -> None:
        """End the threads. Called from one of them (the garbage collector runs where it likes), it does not wait."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=threading.get_ident() not in self._own, cancel_futures=True)
            self._own.clear()
