"""Evaluation contexts of dynamic mode: number of threads, and the checkpoint of a thread."""

from __future__ import annotations

import threading
from typing import Any, Self

from penstock.core import with_call_site
from penstock.dynamic.checkpoint_file import Checkpoint
from penstock.dynamic.thread_pool import ThreadPool, check_num_threads, get_num_threads
from penstock.errors import ContextError, UsageError


class EvalContext:
    """Number of threads that readers use, and a checkpoint.

    A context is a context manager, which can be entered again in the same thread.

    Args:
        num_threads: Number of threads; by default that of `get_num_threads`.
        device_id: DALI's hint: calls compute on the host.
        cuda_stream: Must be None, because calls compute on the host.
        thread_pool: Pool whose number of threads counts, in place of `num_threads`.

    Raises:
        UsageError: Both numbers of threads are set, one is out of range, or a stream is set.

    >>> with EvalContext(num_threads=2) as context:
    ...     EvalContext.current() is context, context.num_threads
    (True, 2)
    """

    @with_call_site
    def __init__(
        self,
        *,
        num_threads: int | None = None,
        device_id: int | None = None,
        cuda_stream: Any = None,
        thread_pool: ThreadPool | None = None,
    ) -> None:
        del device_id
        if num_threads is not None and thread_pool is not None:
            raise UsageError("both num_threads and thread_pool are set", fix="one of them")
        if cuda_stream is not None:
            raise UsageError("dynamic mode does not use streams of CUDA", given="cuda_stream", fix="leave it out")
        self._pool = thread_pool if num_threads is None else ThreadPool(check_num_threads(num_threads))
        self._checkpoint = Checkpoint()
        # Held while the context is entered, so that a second thread is noticed.
        self._lock = threading.RLock()

    @property
    def num_threads(self) -> int:
        """Number of threads."""
        return get_num_threads() if self._pool is None else self._pool.num_threads

    @property
    def thread_pool(self) -> ThreadPool:
        """Pool with this number of threads."""
        return self._pool or ThreadPool()

    @property
    def device_id(self) -> None:
        """Always None: calls compute on the host."""
        return

    @property
    def cuda_stream(self) -> None:
        """Always None, because calls compute on the host."""
        return

    @property
    def checkpoint(self) -> Checkpoint:
        """Checkpoint of this context."""
        return self._checkpoint

    def evaluate_all(self) -> None:
        """Do nothing: every call has computed."""

    @staticmethod
    def default() -> EvalContext:
        """Return the context of this thread outside of `with` statements."""
        if not hasattr(_thread, "default"):
            _thread.default = EvalContext()
        return _thread.default

    @staticmethod
    def current() -> EvalContext:
        """Return the context of the innermost `with` statement of this thread, or the default one."""
        return _entered()[-1] if _entered() else EvalContext.default()

    @with_call_site
    def __enter__(self) -> Self:
        if not self._lock.acquire(blocking=False):
            raise ContextError("another thread has entered this context", fix="a context for each thread")
        _entered().append(self)
        return self

    def __exit__(self, *_error: object) -> None:
        _entered().pop()
        self._lock.release()


_thread = threading.local()


def _entered() -> list[EvalContext]:
    if not hasattr(_thread, "contexts"):
        _thread.contexts = []
    return _thread.contexts


def current_checkpoint() -> Checkpoint:
    """Return the checkpoint of the current context."""
    return EvalContext.current().checkpoint
