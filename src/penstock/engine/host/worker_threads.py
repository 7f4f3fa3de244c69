"""Executors: where host work runs, on threads or in the thread that submits it.

The threads are daemons, so a user's function that never returns cannot keep the program from ending.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, wait
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar
from weakref import WeakValueDictionary

from penstock.core import Array
from penstock.core.slow_waits import current_line
from penstock.engine.host.batch_buffers import aligned_memory
from penstock.engine.host.chunk_executor import Chunk, ChunkExecutor, ChunkResult
from penstock.errors import ContextError, ResourceError
from penstock.sources.storage.byte_range import ReadCost

if TYPE_CHECKING:
    from penstock.engine.host.host_program import HostProgram

_log = logging.getLogger("penstock")

P = ParamSpec("P")
T = TypeVar("T")

_Task = tuple[Future[Any], Callable[[], Any]]

# How long `close`, and the end of the program, wait for running functions. Python cannot stop a thread from outside
# safely: an exception raised in it asynchronously can leave locks held and files half written. So a function that takes
# longer keeps its thread, and nothing waits for it.
CLOSE_TIMEOUT_SECONDS = 5.0


class Executor(Protocol):
    """Runs functions.

    Attributes:
        workers: Number of functions that can run at the same time.
    """

    workers: int

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function and return the future of its result or exception."""
        ...

    def close(self, patience: float | None = None) -> None:
        """Cancel functions that have not started, and wait for the others. The executor can be used again.

        Args:
            patience: Seconds to wait; None for `CLOSE_TIMEOUT_SECONDS`.
        """
        ...

    def shutdown_nowait(self) -> None:
        """Cancel functions that have not started, and do not wait for the others."""
        ...


class _ThisProcess(Executor, ChunkExecutor):
    """Base class of executors that compute chunks in this process."""

    in_process = True

    def prepare(self, program: HostProgram) -> None:
        """Do nothing: this process can compute any program."""

    def compute(self, program: HostProgram, chunk: Chunk) -> Future[ChunkResult]:
        """Run `HostProgram.run_rows`."""
        return self.submit(program.run_rows, chunk)

    def empty(self, size: int) -> Array:
        """Return memory of this process."""
        return aligned_memory(size)

    def summary(self) -> str:
        """Return "": `stats()` already shows the cores that threads keep busy."""
        return ""


class SerialExecutor(_ThisProcess):
    """Executor that runs a function immediately, in the thread that submits it."""

    workers = 1
    read_executor = None
    prefetched = ()

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function before returning."""
        future: Future[T] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # the future raises it
            future.set_exception(error)
        return future

    def close(self, patience: float | None = None) -> None:
        """Do nothing: every function has already returned."""

    def shutdown_nowait(self) -> None:
        """Do nothing: every function has already returned."""


class ThreadExecutor(_ThisProcess):
    """Executor that runs functions on up to `workers` threads, in the order of submission.

    All executors of one name and size in the process share their threads. The threads start with the first functions
    and end when the last of these executors is closed.

    Args:
        workers: Maximum number of threads.
        readers: Maximum number of additional threads that wait for data. 0 disables prefetching.
        prefetched: Kinds of data to prefetch on these threads.
        name: Prefix of the threads' names.
    """

    def __init__(
        self,
        workers: int,
        readers: int = 0,
        prefetched: Collection[ReadCost] = (ReadCost.STORE,),
        name: str = "penstock",
    ) -> None:
        self.workers = workers
        self.prefetched = prefetched
        self.read_executor: Executor | None = ThreadExecutor(readers, name="penstock-read") if readers else None
        # Computes the chunks for which several threads are slower than one.
        self._single = ThreadExecutor(1, name=f"{name}-single") if workers > 1 else None
        self._name = name
        self._shared: _SharedThreads | None = None
        self._unfinished: set[Future[Any]] = set()

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function on the next free thread.

        Raises:
            ContextError: The program is ending, so Python starts no more threads.
            ResourceError: The system cannot start a thread.
        """
        return self._submit(partial(function, *args, **kwargs), self.workers)

    def _submit(self, function: Callable[[], T], threads: int) -> Future[T]:
        """Run a function on the next free thread. Starts a thread if there are fewer than `threads`."""
        future: Future[T] = Future()
        with _lock:
            shared = self._shared = self._shared or _shared_threads(self._name, self.workers)
            if len(shared.threads) < threads:
                _start_thread(shared, f"{self._name}_{len(shared.threads)}")
            self._unfinished.add(future)
            shared.tasks.put((future, function))
        # A bound method of the set, not of the executor: a running future must not keep a dropped executor alive.
        future.add_done_callback(self._unfinished.discard)
        return future

    def compute(self, program: HostProgram, chunk: Chunk) -> Future[ChunkResult]:
        """Run `HostProgram.run_rows`, for cheap samples on one thread."""
        if self._single is not None and program.scheduler.cheap:
            return self._single.submit(program.run_rows, chunk)
        return self._submit(partial(program.run_rows, chunk), program.scheduler.workers(self.workers))

    def close(self, patience: float | None = None) -> None:
        """Cancel functions that have not started, and wait for the others.

        A function that runs for longer is abandoned and logged. Its thread ends when the function returns; a new thread
        takes its place. On one of the threads, `close` does not wait.

        Args:
            patience: Seconds to wait; None for `CLOSE_TIMEOUT_SECONDS`.
        """
        if self._single is not None:
            self._single.close(patience)
        shared = self._shared
        self.shutdown_nowait()
        if shared is None or _on_worker_thread():
            return
        late = _wait(self._unfinished.copy(), patience)
        with _lock:
            shared.threads[:] = [thread for thread in shared.threads if thread not in late]
        # After `close`, no thread of this executor is left, unless another executor shares it.
        threads, reference = shared.threads, weakref.ref(shared)
        del shared
        if reference() is None:  # no other executor uses the threads, so they are ending
            for thread in threads:
                thread.join()

    def shutdown_nowait(self) -> None:
        """Cancel functions that have not started, and do not wait for the others.

        Safe in finalizers. The garbage collector may run them in a thread that holds a lock which a worker needs in
        order to finish, so a finalizer that waits, or takes a lock, can deadlock.
        """
        if self._single is not None:
            self._single.shutdown_nowait()
        self._shared = None
        for future in self._unfinished.copy():
            future.cancel()


class _SharedThreads:
    """Work queue of all executors of one name and size, and its threads, which end when no executor holds it."""

    def __init__(self) -> None:
        self.tasks = SimpleQueue[_Task | None]()
        self.threads = list[threading.Thread]()
        weakref.finalize(self, _end_threads, self.tasks, self.threads).atexit = False


_running = dict[Future[Any], threading.Thread]()  # a future is removed when it is done, or by whoever abandons it
_all_shared: WeakValueDictionary[tuple[str, int], _SharedThreads] = WeakValueDictionary()
# Reentrant: the garbage collector may run a user's finalizer that closes an iterator while the lock is held.
_lock = threading.RLock()
_local = threading.local()
_exiting = threading.Event()


def _on_worker_thread() -> bool:
    return getattr(_local, "is_worker", False)


def _shared_threads(name: str, workers: int) -> _SharedThreads:
    # A user's function may itself run a pipeline on a worker thread. If that pipeline shared the threads, all of them
    # could wait for functions that no thread is left to run.
    if _on_worker_thread():
        return _SharedThreads()
    return _all_shared.setdefault((name, workers), _SharedThreads())


def _start_thread(shared: _SharedThreads, name: str) -> None:
    thread = threading.Thread(target=_run_tasks, args=(shared.tasks,), name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        if "shutdown" in str(error):
            raise ContextError(
                "a batch was requested while the program ends", fix="request batches before the main thread returns"
            ) from None
        # With at least one thread, work continues, only with less parallelism.
        if not shared.threads:
            raise ResourceError("the system cannot start a thread", given=str(error)) from None
    else:
        shared.threads.append(thread)


def _run_tasks(tasks: SimpleQueue[_Task | None]) -> None:
    """Run the functions of a queue. Holds the queue only, so that `_SharedThreads` can end while a thread waits."""
    _local.is_worker = True
    while (task := tasks.get()) is not None:
        future, function = task
        _running[future] = threading.current_thread()
        # Cancelled, so that a thread that waits for the result ends with an error instead of hanging.
        if _exiting.is_set():
            future.cancel()
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001  # the future raises it
                future.set_exception(error)
        abandoned = _running.pop(future, None) is None
        del task, future, function  # they would keep buffers alive while the thread waits
        if abandoned:  # another thread has taken this one's place
            return


def _wait(futures: Iterable[Future[Any]], patience: float | None = None) -> list[threading.Thread]:
    """Wait for running functions. Returns the threads whose functions take too long and are abandoned."""
    seconds = CLOSE_TIMEOUT_SECONDS if patience is None else patience
    running = [_running.pop(future, None) for future in wait(futures, seconds).not_done]
    late = [thread for thread in running if thread is not None]
    for line, count in Counter(map(current_line, late)).items():
        threads = "its thread waits" if count == 1 else f"{count} threads wait"
        _log.warning("a function has not returned within %g s after close; %s for it: %s", seconds, threads, line)
    return late


def running_threads() -> list[threading.Thread]:
    """Return the threads of all executors that run a function now."""
    return list(_running.copy().values())


def _end_threads(tasks: SimpleQueue[_Task | None], threads: list[threading.Thread]) -> None:
    for _ in threads:
        tasks.put(None)


@atexit.register
def _finish_before_exit() -> None:
    # Compiled kernels run without the GIL and would write into memory that the interpreter frees while it shuts down.
    _exiting.set()
    _wait(list(_running))


def _forget_threads() -> None:
    _all_shared.clear()
    _running.clear()
    _lock.release()


# A forked child has none of the threads, and a lock that one of them held would stay locked forever.
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_forget_threads)
