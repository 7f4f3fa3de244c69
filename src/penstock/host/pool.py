"""Where host work runs: on threads, or, as the plain twin, at once in the caller."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection
from concurrent.futures import Future
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

from penstock.data.source import Cost
from penstock.host.crew import Crew, in_crew, shared

P = ParamSpec("P")
T = TypeVar("T")


class Pool(Protocol):
    """Runs functions."""

    workers: int

    @property
    def reading(self) -> Pool | None:
        """Where functions run that wait for data; None where nothing is fetched ahead."""
        ...

    @property
    def fetched(self) -> Collection[Cost]:
        """What is fetched ahead there."""
        ...

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
    reading = None
    fetched = ()

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
    """Runs functions on up to `workers` threads, which all pools of that size in the process share.

    The threads start with the first functions, and end when no open pool has any use for them. A pool that is used on
    one of these threads, as by a function of the user's that has a pipeline of its own, gets threads of its own: those
    that it would wait for may all be waiting like itself.

    Args:
        workers: how many threads.
        readers: how many other threads wait for data; they start with the first object or file.
        fetched: what they fetch ahead.
        name: what the threads are called.
    """

    def __init__(
        self, workers: int, readers: int = 0, fetched: Collection[Cost] = (Cost.STORE,), name: str = "penstock"
    ) -> None:
        self.workers = workers
        self.fetched = fetched
        self.reading: Pool | None = Threads(readers, name="penstock-read") if readers else None
        self._name = name
        self._crew: Crew | None = None
        self._unfinished: set[Future[Any]] = set()
        self._lock = threading.Lock()

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function on the next free thread; functions begin in the order in which they came.

        Raises:
            ContextError: the program is ending, and Python starts no threads any more.
            ResourceError: the system has no thread left.
        """
        with self._lock:
            if self._crew is None:
                self._crew = shared(self._name, self.workers)
            future = self._crew.submit(partial(function, *args, **kwargs))
            self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)  # of the set, not of self: a future keeps no pool alive
        return future

    def close(self) -> None:
        """Give up what has not begun, and wait for what has, unless it is one of the threads that calls.

        What does not return within seconds is interrupted: see `Crew.finish`.
        """
        self._end(wait=not in_crew())

    def abandon(self) -> None:
        """Give up what has not begun, and wait for nothing.

        For finalizers: the garbage collector runs in any thread, also in one that holds a lock which a thread needs to
        end. To wait there is to wait for ever.
        """
        self._end(wait=False)

    def _end(self, *, wait: bool) -> None:
        crew, self._crew = self._crew, None
        if crew is None:
            return
        running = [future for future in self._unfinished.copy() if not future.cancel()]
        if not wait:
            return
        crew.finish(running)
        last, threads = weakref.ref(crew), crew.threads
        del crew
        if last() is None:
            for thread in threads:
                thread.join()
