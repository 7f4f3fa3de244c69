"""Worker processes as seen by the program that starts them."""

from __future__ import annotations

import mmap
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from penstock.core import Column
from penstock.errors import ContextError, SourceError
from penstock.sources.external.processes.shared_memory import opened, view
from penstock.sources.external.processes.socket_channel import Channel, ErrorResponse, RegisterSource, Request, Response
from penstock.sources.external.processes.worker_main import GRACE
from penstock.sources.stream import BatchRequest

# Not `multiprocessing`: its spawn method imports the user's main module, which would run the program again without an
# `if __name__ == "__main__"` guard.
_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; "
    "from penstock.sources.external.processes.worker_main import serve; serve({descriptor})"
)


class WorkerProcess:
    """Worker process. It ends when its parent ends, for any reason."""

    def __init__(self) -> None:
        mine, theirs = socket.socketpair()
        with theirs:
            program = _PROGRAM.format(path=sys.path, descriptor=theirs.fileno())
            command = [sys.executable, "-c", program]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # A source's module may import JAX. Workers must not claim the parent's accelerators.
                env={**os.environ, "JAX_PLATFORMS": "cpu"},
            )
        self._channel = Channel(mine)
        self.closed = False
        self._memory: dict[int, mmap.mmap] = {}
        self._count = 0
        self._responses: dict[int, Response | ErrorResponse] = {}
        self._discarded: set[int] = set()
        self._returned: list[int] = []

    def send(self, message: RegisterSource | Request) -> None:
        """Send a message. A lost connection is reported when the response is awaited."""
        with suppress(OSError):
            self._channel.send(message)

    def submit(self, source: int, request: BatchRequest, rows: tuple[int, int] | None) -> PendingRequest:
        """Request a batch or some of its rows, without waiting."""
        self._count += 1
        returned, self._returned = tuple(self._returned), []
        self.send(Request(self._count, source, request, rows, returned))
        return PendingRequest(self, self._count)

    def result(self, ticket: int, doing: str) -> tuple[Column, ...]:
        """Wait for a response. Its arrays are valid until `drop` is called.

        Args:
            ticket: Number of the request.
            doing: Description of the request for messages.

        Raises:
            Exception: The source raised it.
            ContextError: Another thread has closed the worker meanwhile.
            SourceError: The worker has ended by itself.
        """
        while ticket not in self._responses:
            try:
                message, descriptor = self._channel.receive()
            except EOFError:
                raise self._ended(doing) from None
            if descriptor is not None:
                self._memory[message.segment] = opened(descriptor)
            self._responses[message.ticket] = message
            for number in message.dropped if isinstance(message, Response) else ():
                del self._memory[number]
            # A prefetched batch may be dropped before it arrives; its memory is returned when it does.
            for discarded in self._discarded & self._responses.keys():
                self.drop(discarded)
        answer = self._responses[ticket]
        if isinstance(answer, ErrorResponse):
            raise answer.error from answer.cause
        memory = self._memory[answer.segment]
        return tuple([[view(memory, p) for p in c] if isinstance(c, list) else view(memory, c) for c in answer.columns])

    def drop(self, ticket: int) -> None:
        """Release a response that is not needed, or not any more."""
        answer = self._responses.pop(ticket, None)
        if answer is None:
            self._discarded.add(ticket)
            return
        self._discarded.discard(ticket)
        if isinstance(answer, Response):
            self._returned.append(answer.segment)

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

    def _ended(self, doing: str) -> SourceError | ContextError:
        if self.closed:
            return ContextError(
                "the iterator or pipeline was closed while this thread waited for a worker process",
                fix="close it when no other thread requests batches; the next request produces the same batch",
            )
        self.hang_up()
        # The connection may close before the process has an exit code.
        self.end(time.monotonic() + 2 * GRACE)
        code = self._process.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return SourceError(
            f"{doing}: worker process {self._process.pid} {how}",
            fix="look for the cause in its output: out of memory, a crash in a library, a call of exit. "
            "The next request starts new workers",
        )


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request whose response has not been taken.

    Args:
        process: The worker.
        number: Number of the request.
    """

    process: WorkerProcess
    number: int

    @property
    def lost(self) -> bool:
        """True if no response will arrive."""
        return self.process.closed

    def result(self, doing: str) -> tuple[Column, ...]:
        """See `WorkerProcess.result`."""
        return self.process.result(self.number, doing)

    def discard(self) -> None:
        """See `WorkerProcess.drop`."""
        self.process.drop(self.number)


class WorkerPool:
    """Worker processes shared by all sources of a definition. They start with the first request and end with `close`.

    Args:
        count: Number of processes.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._payloads: list[bytes] = []
        self._processes: list[WorkerProcess] = []
        # Refers to the list, not to the pool: a bound method would keep the pool alive.
        weakref.finalize(self, _end, self._processes)

    def add(self, payload: bytes) -> int:
        """Register a pickled source and return its number."""
        self._payloads.append(payload)
        number = len(self._payloads) - 1
        for process in self._processes:
            process.send(RegisterSource(number, payload))
        return number

    def submit(self, worker: int, source: int, request: BatchRequest, rows: tuple[int, int] | None) -> PendingRequest:
        """Request a batch from a worker, without waiting; see `WorkerProcess.submit`."""
        if not self._processes:
            self._processes += [WorkerProcess() for _ in range(self.count)]
            for process in self._processes:
                for number, payload in enumerate(self._payloads):
                    process.send(RegisterSource(number, payload))
        return self._processes[worker % self.count].submit(source, request, rows)

    def close(self) -> None:
        """End all workers within about a second. The next request starts new ones."""
        _end(self._processes)


def _end(processes: list[WorkerProcess]) -> None:
    ending: Iterable[WorkerProcess] = list(processes)
    processes.clear()
    for process in ending:
        process.hang_up()
    # All workers hang up first, so they end in parallel and share the deadline.
    deadline = time.monotonic() + 2 * GRACE
    for process in ending:
        process.end(deadline)
