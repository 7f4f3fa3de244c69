"""Slice recorder: the intervals of all threads, for `penstock.trace`. Costs a comparison per stage when it is off."""

import threading
import time
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

# Event in a profile of JAX whose argument `perf_counter_ns` is the host's clock at that moment.
CLOCK_MARKER = "penstock clock"


class Slice(NamedTuple):
    """An interval of a thread.

    Args:
        name: Stage, or other work.
        start: Beginning, in seconds of `time.perf_counter`.
        end: End, in the same unit.
        thread: Number of the thread in the operating system.
        args: Details, such as the number of samples.
    """

    name: str
    start: float
    end: float
    thread: int
    args: dict[str, Any]


class SliceRecorder:
    """Slices of all threads. Thread-safe, because appending to a list is atomic.

    Attributes:
        slices: The slices, in the order of their ends.
        threads: Name of each thread by its number.

    >>> recorder = SliceRecorder()
    >>> with recorder.slice("decode", samples=2):
    ...     recorder.add("read", 0.0, 0.5)
    >>> [(item.name, item.args) for item in recorder.slices]
    [('read', {}), ('decode', {'samples': 2})]
    """

    def __init__(self) -> None:
        self.slices: list[Slice] = []
        self.threads: dict[int, str] = {}

    def add(self, name: str, start: float, end: float, **args: Any) -> None:
        """Record a slice of this thread."""
        # The number of the operating system: Perfetto's numbers of threads have 32 bits, Python's have 64.
        ident = threading.get_native_id()
        if ident not in self.threads:
            self.threads[ident] = threading.current_thread().name
        self.slices.append(Slice(name, start, end, ident, args))

    def merge(self, slices: Sequence[Slice], process: str) -> None:
        """Add the slices of a worker process, whose clock is that of this process."""
        for item in slices:
            self.threads[item.thread] = process
        self.slices += slices

    @contextmanager
    def slice(self, name: str, **args: Any) -> Generator[None]:
        """Record the time in the `with` block as a slice of this thread."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, start, time.perf_counter(), **args)


_OFF: AbstractContextManager[None] = nullcontext()
_active: SliceRecorder | None = None
_lock = threading.Lock()


def active_recorder() -> SliceRecorder | None:
    """Return the recorder that records now, or None."""
    return _active


def recorded(name: str, **args: Any) -> AbstractContextManager[None]:
    """Return a context manager that records its time as a slice of this thread while a recorder is active."""
    return _OFF if _active is None else _active.slice(name, **args)


@contextmanager
def recording(recorder: SliceRecorder) -> Generator[bool]:
    """Record the slices of all threads in the `with` block. Yields False, and records nothing, if another one does."""
    global _active  # noqa: PLW0603  # one recorder per process, as JAX has one profiler
    with _lock:
        starts = _active is None
        if starts:
            _active = recorder
    try:
        yield starts
    finally:
        if starts:
            _active = None
