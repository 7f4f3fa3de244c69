"""Worker processes as seen by the program that starts them."""

from __future__ import annotations

import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.core import Column
from penstock.errors import ContextError, ResourceError, SourceError, UsageError, error_text
from penstock.sources.external.processes.shared_memory import file_limit, opened, view
from penstock.sources.external.processes.socket_channel import (
    Channel,
    ErrorResponse,
    RegisterTask,
    Request,
    Response,
    ShareSegment,
)
from penstock.sources.external.processes.task_pickling import PickledTask
from penstock.sources.external.processes.worker_main import GRACE

# Not `multiprocessing`: its spawn method imports the user's main module, which would run the program again without an
# `if __name__ == "__main__"` guard.
_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; "
    "from penstock.sources.external.processes.worker_main import serve; serve({descriptor})"
)

# Workers that may end while they compute the same work. Work that ends more of them is probably the cause.
MAX_LOST = 5


class WorkerProcess:
    """Worker process. It ends when its parent ends, for any reason.

    Attributes:
        closed: True after the connection has ended.
        failed: True if it has ended by itself, or because the system refused memory.
        memory: Segments of the worker that responses use.
        returned: Segments of responses that were released since the last request.
        buffers: Numbers of the program's segments that the worker has.

    Raises:
        ResourceError: The system refuses file descriptors, memory or a process.
        UsageError: This is Windows, which cannot pass file descriptors to a process.
    """

    def __init__(self) -> None:
        if not hasattr(socket, "send_fds"):
            raise UsageError(
                "Windows cannot share the memory of batches with worker processes",
                fix="threads: without `num_processes=` or `parallel=True`; or run the program in WSL2",
            )
        try:
            self._process, self._channel = _start_process()
        except OSError as error:
            raise ResourceError(
                "a worker process cannot be started",
                given=error_text(error),
                expected=f"room for another process, and {file_limit()}",
                fix="fewer processes, iterators, pipelines and open files at the same time; or higher limits "
                "(`ulimit -a` shows them)",
            ) from error
        self.closed = self.failed = False
        self._count = 0
        self._pending: dict[int, PendingRequest] = {}
        self.memory: dict[int, mmap.mmap] = {}
        self.returned: list[int] = []
        self.buffers: set[int] = set()

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """True until the process has ended."""
        return self._process.poll() is None

    def send(self, message: RegisterTask | ShareSegment | Request, descriptor: int | None = None) -> None:
        """Send a message. A lost connection is reported when the response is awaited.

        Raises:
            ResourceError: The system does not pass the descriptor.
        """
        try:
            self._channel.send(message, descriptor)
        except ResourceError:
            raise
        except OSError:
            return

    def submit(self, task: int, call: Any, freed: tuple[int, ...] = ()) -> PendingRequest:
        """Request the result of a task, without waiting.

        Args:
            task: Number of the task.
            call: Its argument.
            freed: Segments of the program that the worker may forget.
        """
        self._count += 1
        returned, self.returned = tuple(self.returned), []
        pending = self._pending[self._count] = PendingRequest(self)
        self.send(Request(self._count, task, call, returned, freed))
        return pending

    def receive(self, doing: str) -> None:
        """Wait for the next response, and pass it to its request.

        Args:
            doing: Description of the awaited request for messages.

        Raises:
            ContextError: Another thread has closed the worker meanwhile.
            SourceError: The worker has ended by itself.
            ResourceError: This process cannot map the memory of the response. The worker has been ended.
        """
        try:
            message, descriptor = self._channel.receive()
            if descriptor is not None:
                self.memory[message.segment] = opened(descriptor)
        except EOFError:
            raise self.ended(doing) from None
        except ResourceError:
            # The worker would use this segment again without sending its descriptor.
            self._fail()
            raise
        for number in message.dropped if isinstance(message, Response) else ():
            del self.memory[number]
        self._pending.pop(message.ticket).accept(message)

    def hang_up(self) -> None:
        """Tell the worker to end, without waiting."""
        self.closed = True
        self._channel.hang_up()

    def end(self, deadline: float) -> None:
        """Wait for the worker to end until `deadline` (of `time.monotonic`), then kill it."""
        try:
            self._process.wait(max(deadline - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def ended(self, doing: str) -> SourceError | ContextError:
        """Return the error for a request to a worker that has ended.

        Args:
            doing: Description of the request.
        """
        if self.closed and not self.failed:
            return _closed()
        self._fail()
        code = self._process.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        cause = "look for the cause in its output: out of memory, a crash in a library, a call of exit"
        if code == -signal.SIGKILL:  # the kernel's choice when memory runs out
            cause = "the system was probably out of memory (`dmesg` shows it): fewer processes or smaller batches"
        return SourceError(
            f"{doing}: worker process {self._process.pid} {how}", fix=f"{cause}. The next request starts a new worker"
        )

    def _fail(self) -> None:
        if not self.failed:
            self.failed = True
            self.hang_up()
            # The connection may close before the process has an exit code.
            self.end(time.monotonic() + 2 * GRACE)


def _start_process() -> tuple[subprocess.Popen[bytes], Channel]:
    mine, theirs = socket.socketpair()
    with theirs:
        # Python ignores other entries, such as a `Path`.
        path = [entry for entry in sys.path if type(entry) is str]
        program = _PROGRAM.format(path=path, descriptor=theirs.fileno())
        command = [sys.executable, "-c", program]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # A user's module may import JAX. Workers must not claim the parent's accelerators.
                env={**os.environ, "JAX_PLATFORMS": "cpu"},
            )
        except BaseException:
            mine.close()
            raise
    return process, Channel(mine)


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A request to a worker, and its response once it has arrived."""

    process: WorkerProcess
    response: Response | ErrorResponse | None = None
    discarded: bool = False

    @property
    def lost(self) -> bool:
        """True if no response will arrive."""
        return self.process.closed

    def accept(self, response: Response | ErrorResponse) -> None:
        """Set the response."""
        self.response = response
        # A prefetched batch may be discarded before it arrives; its memory is returned when it does.
        if self.discarded:
            self.discard()

    def result(self, doing: str) -> tuple[Column, ...]:
        """Wait for the response. Its arrays are valid until `discard` is called.

        Args:
            doing: Description of the request for messages.

        Raises:
            Exception: The task raised it.
            ContextError, SourceError, ResourceError: As `WorkerProcess.receive`.
        """
        while self.response is None:
            self.process.receive(doing)
        if isinstance(self.response, ErrorResponse):
            raise self.response.error from self.response.cause
        memory, columns = self.process.memory[self.response.segment], self.response.columns
        return tuple([[view(memory, p) for p in c] if isinstance(c, list) else view(memory, c) for c in columns])

    @property
    def details(self) -> Any:
        """Details of the response, which has arrived."""
        assert isinstance(self.response, Response)
        return self.response.details

    def discard(self) -> None:
        """Release the response, which is not needed, or not any more."""
        response, self.response, self.discarded = self.response, None, True
        if isinstance(response, Response):
            self.process.returned.append(response.segment)


class WorkerPool:
    """Worker processes of an iterator or pipeline. They start with the first request and end with `close`.

    Sources call `submit` from the consumer's thread, which sends requests to a chosen worker ahead of time. Other
    threads `borrow` a worker for one request.

    Args:
        count: Number of processes.

    Attributes:
        replaced: Number of workers that were replaced after they ended, without those that ended while borrowed.
    """

    def __init__(self, count: int) -> None:
        self.count, self.replaced = count, 0
        self._tasks: list[PickledTask] = []
        self._processes: list[WorkerProcess] = []
        self._idle: list[WorkerProcess] = []
        self._lock = threading.Lock()
        self._closes = 0
        # Refers to the list, not to the pool: a bound method would keep the pool alive.
        weakref.finalize(self, _end, self._processes)

    def add(self, task: PickledTask) -> int:
        """Register a pickled task and return its number."""
        self._tasks.append(task)
        number = len(self._tasks) - 1
        for process in self._processes:
            _register(process, number, task)
        return number

    def submit(self, worker: int, task: int, call: Any) -> PendingRequest:
        """Request the result of a task from a worker, without waiting; see `WorkerProcess.submit`.

        A worker that has ended by itself is replaced.
        """
        while len(self._processes) < self.count:
            self._processes.append(self._start())
        number = worker % self.count
        if self._processes[number].closed:
            self._processes[number] = self._start()
            self.replaced += 1
        return self._processes[number].submit(task, call)

    @property
    def closes(self) -> int:
        """Number of calls of `close`."""
        return self._closes

    @property
    def pids(self) -> tuple[int, ...]:
        """Numbers of the processes that run."""
        return tuple([process.pid for process in tuple(self._processes)])

    def borrow(self, closes: int) -> WorkerProcess:
        """Return a worker that nobody uses, for one thread. It may still be starting.

        Args:
            closes: The value of `closes` when the work began.

        Raises:
            ContextError: The pool was closed since then.
        """
        with self._lock:
            if closes != self._closes:
                raise _closed()
            while self._idle:
                process = self._idle.pop()
                if process.running:
                    return process
                # It ended while nobody used it, so no chunk is the cause.
                process.hang_up()
                self._processes.remove(process)
                self.replaced += 1
            process = self._start()
            self._processes.append(process)
            return process

    def give_back(self, process: WorkerProcess) -> None:
        """Return a borrowed worker. One that has ended is dropped, and the next `borrow` starts another one."""
        with self._lock:
            if process not in self._processes:  # `close` ends it
                return
            if process.closed:
                self._processes.remove(process)
            else:
                self._idle.append(process)

    def close(self) -> None:
        """End all workers within about a second. The next request starts new ones."""
        with self._lock:
            self._closes += 1
            self._idle.clear()
            ending = self._processes[:]
            # The finalizer holds this list, so it stays the same one.
            self._processes.clear()
        _end(ending)

    def _start(self) -> WorkerProcess:
        process = WorkerProcess()
        try:
            for number, task in enumerate(self._tasks):
                _register(process, number, task)
        except BaseException:
            _end([process])
            raise
        return process


def _register(process: WorkerProcess, number: int, task: PickledTask) -> None:
    process.send(RegisterTask(number, task.payload, task.arrays), task.descriptor)


def _closed() -> ContextError:
    return ContextError(
        "the iterator or pipeline was closed while this thread waited for a worker process",
        fix="close it when no other thread requests batches; the next request produces the same batch",
    )


def _end(processes: list[WorkerProcess]) -> None:
    ending: Iterable[WorkerProcess] = list(processes)
    processes.clear()
    for process in ending:
        process.hang_up()
    # All workers hang up first, so they end in parallel and share the deadline.
    deadline = time.monotonic() + 2 * GRACE
    for process in ending:
        process.end(deadline)
