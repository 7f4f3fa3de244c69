"""The threads of pools. They are daemons: a function of the user's that never returns keeps no program from ending."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import logging
import os
import sys
import sysconfig
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, wait
from contextlib import nullcontext
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, Protocol, TypeVar
from weakref import WeakSet, WeakValueDictionary

from penstock.core.call_site import PACKAGE
from penstock.errors import ContextError, ResourceError
from penstock.native.compiled import compilation_paused
from penstock.sources.storage.byte_range import ReadCost

_log = logging.getLogger("penstock")

PATIENCE = 5.0
"""Seconds that what has begun may take once nobody wants its result."""
_LAST_WORDS = 1.0
"""Seconds that a function has to end after it is interrupted."""

_Task = tuple[Future[Any], Callable[[], Any]]


class WorkInterrupted(BaseException):
    """Raised in a function that still runs, `PATIENCE` seconds after the iterator that it works for was closed."""


class ThreadCrew:
    """Up to `workers` threads, which all pools of one name and size share. They end when no pool holds the crew.

    Args:
        name: what the threads are called.
        workers: how many there are at most; they start as functions come.
    """

    def __init__(self, name: str, workers: int) -> None:
        self._name, self._workers = name, workers
        self._tasks = SimpleQueue[_Task | None]()
        self.threads = list[threading.Thread]()
        weakref.finalize(self, _dismiss, self._tasks, self.threads).atexit = False
        _alive.add(self)

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        """Run a function on the next free thread; functions begin in the order in which they came.

        Raises:
            ContextError: the program is ending, and Python starts no threads any more.
            ResourceError: the system has no thread left.
        """
        if len(self.threads) < self._workers:
            self._start()
        future = Future[Any]()
        self._tasks.put((future, function))
        return future

    def finish(self, futures: Iterable[Future[Any]]) -> None:
        """Wait for functions that have begun. What takes longer than `PATIENCE` is interrupted.

        A function that does not heed that either, since it waits outside of Python, is left behind, and logged; its
        thread ends when it returns. Another thread takes its place.
        """
        for thread in _finish(futures):
            self.threads.remove(thread)

    def give_up(self) -> None:
        """Give up what has not begun."""
        with contextlib.suppress(Empty):
            while (task := self._tasks.get_nowait()) is not None:
                task[0].cancel()

    def _start(self) -> None:
        thread = threading.Thread(
            target=_work, args=(self._tasks,), name=f"{self._name}_{len(self.threads)}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            if "shutdown" in str(error):
                raise ContextError("batches are asked for while the program ends", fix="ask for them before") from None
            if not self.threads:
                raise ResourceError("the system starts no thread any more", given=str(error)) from None
        else:
            self.threads.append(thread)


def on_worker_thread() -> bool:
    """Whether the current thread is one of a crew's."""
    return getattr(_here, "is_worker", False)


def shared_crew(name: str, workers: int) -> ThreadCrew:
    """The crew of a name and size, which all share; a new one for a thread of a crew, which would wait for itself."""
    if on_worker_thread():
        return ThreadCrew(name, workers)
    with _joining:
        crew = _crews.get((name, workers))
        if crew is None:
            crew = _crews[name, workers] = ThreadCrew(name, workers)
        return crew


def _work(tasks: SimpleQueue[_Task | None]) -> None:
    """What a thread does. It holds its crew's queue, not the crew, which ends with the last pool."""
    _here.is_worker = True
    me = threading.current_thread()
    try:
        while (task := tasks.get()) is not None:
            future, function = task
            _busy[me] = future
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:  # noqa: BLE001  # it is the future's to raise
                    future.set_exception(error)
            del task, future, function  # while it waits, it keeps nothing alive
            with _turn:
                if _busy.pop(me, None) is None:
                    return  # given up: another thread has its place
    except WorkInterrupted:
        pass  # it came when the function had just returned


def _finish(futures: Iterable[Future[Any]]) -> list[threading.Thread]:
    """Wait for what has begun; returns the threads whose functions took too long, and are interrupted."""
    hanging = wait(futures, PATIENCE).not_done
    # A compilation is not interrupted: the exception would end in a callback of LLVM, and the code would be lost.
    # And none of the threads goes on to another function meanwhile.
    with compilation_paused() if hanging else nullcontext(), _turn:
        late = [thread for thread, future in _busy.copy().items() if future in hanging and not future.done()]
        for thread in late:
            del _busy[thread]
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread.ident or 0), ctypes.py_object(WorkInterrupted)
            )
    until = time.monotonic() + _LAST_WORDS
    for thread in late:
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive():
            _log.warning(
                "a function has not returned %g s after its result was given up; its thread waits for it: %s",
                PATIENCE + _LAST_WORDS,
                _place(thread),
            )
    return late


def _dismiss(tasks: SimpleQueue[_Task | None], threads: list[threading.Thread]) -> None:
    for _ in threads:
        tasks.put(None)


def _place(thread: threading.Thread) -> str:
    """The line of the user's program that a thread is at; where it is at none, the innermost one of a library."""
    # documented, if not for all; kept in no variable, for it has this very frame, which would then keep itself alive
    inner = frame = sys._current_frames().get(thread.ident or 0)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
    libraries = (PACKAGE, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))
    while frame is not None and frame.f_code.co_filename.startswith(libraries):
        frame = frame.f_back
    frame = frame or inner
    return "".join(traceback.format_stack(frame, 1)).strip() if frame is not None else "it has just ended"


@atexit.register
def _end_all() -> None:
    """Let no kernel write while Python takes itself apart."""
    for crew in list(_alive):
        crew.give_up()
    _finish(_busy.copy().values())


_busy = dict[threading.Thread, Future[Any]]()
"""What the threads of all crews are at; a thread that is not here any more is not waited for."""
_turn = threading.Lock()
"""Held where a thread is done with a function, and where it is given up."""
_alive = WeakSet[ThreadCrew]()
_crews: WeakValueDictionary[tuple[str, int], ThreadCrew] = WeakValueDictionary()
_joining = threading.Lock()
_here = threading.local()


def _forget() -> None:
    _crews.clear()
    _alive.clear()
    _busy.clear()
    _turn.release()


# a fork has none of the threads, and a lock that one of them held would stay held
os.register_at_fork(before=_turn.acquire, after_in_parent=_turn.release, after_in_child=_forget)


P = ParamSpec("P")
T = TypeVar("T")


class Executor(Protocol):
    """Runs functions."""

    workers: int

    @property
    def reading(self) -> Executor | None:
        """Where functions run that wait for data; None where nothing is fetched ahead."""
        ...

    @property
    def fetched(self) -> Collection[ReadCost]:
        """What is fetched ahead there."""
        ...

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function; the future holds its result or its exception."""
        ...

    def close(self) -> None:
        """Give up what has not begun, and wait for what has. The pool may be used again."""
        ...

    def shutdown_nowait(self) -> None:
        """Give up what has not begun, and wait for nothing."""
        ...


class SerialExecutor:
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

    shutdown_nowait = close


class ThreadExecutor:
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
        self, workers: int, readers: int = 0, fetched: Collection[ReadCost] = (ReadCost.STORE,), name: str = "penstock"
    ) -> None:
        self.workers = workers
        self.fetched = fetched
        self.reading: Executor | None = ThreadExecutor(readers, name="penstock-read") if readers else None
        self._name = name
        self._crew: ThreadCrew | None = None
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
                self._crew = shared_crew(self._name, self.workers)
            future = self._crew.submit(partial(function, *args, **kwargs))
            self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)  # of the set, not of self: a future keeps no pool alive
        return future

    def close(self) -> None:
        """Give up what has not begun, and wait for what has, unless it is one of the threads that calls.

        What does not return within seconds is interrupted: see `ThreadCrew.finish`.
        """
        self._end(wait=not on_worker_thread())

    def shutdown_nowait(self) -> None:
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
