"""Worker processes, as the program that has them sees them."""

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
from dataclasses import dataclass

from penstock.core.columns import Column
from penstock.errors import ContextError, SourceError
from penstock.sources.external.processes.shared_memory import opened, view
from penstock.sources.external.processes.socket_channel import Channel, ErrorResponse, RegisterSource, Request, Response
from penstock.sources.external.processes.worker_main import GRACE
from penstock.sources.stream import BatchRequest

_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; "
    "from penstock.sources.external.processes.worker_main import serve; serve({descriptor})"
)


class WorkerProcess:
    """A worker. It ends by itself when its program does, however that ends."""

    def __init__(self) -> None:
        mine, theirs = socket.socketpair()
        with theirs:
            program = _PROGRAM.format(path=sys.path, descriptor=theirs.fileno())
            command = [sys.executable, "-c", program]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "JAX_PLATFORMS": "cpu"},  # should the source's module use it: devices are not ours
            )
        self._channel = Channel(mine)
        self.closed = False
        self._memory: dict[int, mmap.mmap] = {}
        self._asked = 0
        self._answers: dict[int, Response | ErrorResponse] = {}
        self._unwanted: set[int] = set()
        self._returned: list[int] = []

    def send(self, message: RegisterSource | Request) -> None:
        """Send a message. That it cannot arrive shows when the answer is waited for."""
        try:
            self._channel.send(message)
        except OSError:
            return

    def submit(self, source: int, turn: BatchRequest, rows: tuple[int, int] | None) -> PendingRequest:
        """Ask for a batch, or for some rows of one, and do not wait."""
        self._asked += 1
        returned, self._returned = tuple(self._returned), []
        self.send(Request(self._asked, source, turn, rows, returned))
        return PendingRequest(self, self._asked)

    def result(self, ticket: int, doing: str) -> tuple[Column, ...]:
        """Wait for an answer. Its arrays are valid until `drop` is called.

        Args:
            ticket: of the request.
            doing: what messages say of it.

        Raises:
            Exception: what the source raised.
            ContextError: the worker was ended by another thread meanwhile.
            SourceError: the worker has ended by itself.
        """
        while ticket not in self._answers:
            try:
                message, descriptor = self._channel.receive()
            except EOFError:
                raise self._gone(doing) from None
            if descriptor is not None:
                self._memory[message.segment] = opened(descriptor)
            self._answers[message.ticket] = message
            for number in message.dropped if isinstance(message, Response) else ():
                del self._memory[number]
            for unwanted in self._unwanted & self._answers.keys():
                self.drop(unwanted)
        answer = self._answers[ticket]
        if isinstance(answer, ErrorResponse):
            raise answer.error from answer.cause
        memory = self._memory[answer.segment]
        return tuple([[view(memory, p) for p in c] if isinstance(c, list) else view(memory, c) for c in answer.columns])

    def drop(self, ticket: int) -> None:
        """Say that an answer is not needed, or not any more."""
        answer = self._answers.pop(ticket, None)
        if answer is None:
            self._unwanted.add(ticket)
            return
        self._unwanted.discard(ticket)
        if isinstance(answer, Response):
            self._returned.append(answer.segment)

    def hang_up(self) -> None:
        """Tell the worker to end, and do not wait."""
        self.closed = True
        self._channel.hang_up()

    def end(self, deadline: float) -> None:
        """Wait for the end of the worker, no longer than to a time of `time.monotonic`."""
        try:
            self._process.wait(max(deadline - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _gone(self, doing: str) -> SourceError | ContextError:
        if self.closed:
            return ContextError(
                "the iterator or pipeline was closed while this thread waited for a worker process",
                fix="close it when no other thread takes batches; asking again makes the same batch",
            )
        self.hang_up()
        self.end(time.monotonic() + 2 * GRACE)
        code = self._process.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return SourceError(
            f"{doing}: worker process {self._process.pid} {how}",
            fix="look for what ended it: a lack of memory, a crash of a library, an exit; what it printed may tell. "
            "Asking again starts others",
        )


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request that was made.

    Args:
        process: the worker.
        number: of the request.
    """

    process: WorkerProcess
    number: int

    @property
    def lost(self) -> bool:
        """Whether there will be no answer."""
        return self.process.closed

    def result(self, doing: str) -> tuple[Column, ...]:
        """See `WorkerProcess.answer`."""
        return self.process.result(self.number, doing)

    def discard(self) -> None:
        """See `WorkerProcess.drop`."""
        self.process.drop(self.number)


class WorkerPool:
    """Worker processes that all sources of a definition share. They begin with the first request, and end with `close`.

    Args:
        count: how many.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._payloads: list[bytes] = []
        self._processes: list[WorkerProcess] = []
        weakref.finalize(self, _end, self._processes)

    def add(self, payload: bytes) -> int:
        """Add a pickled source.

        Returns:
            Its number.
        """
        self._payloads.append(payload)
        number = len(self._payloads) - 1
        for process in self._processes:
            process.send(RegisterSource(number, payload))
        return number

    def submit(self, worker: int, source: int, turn: BatchRequest, rows: tuple[int, int] | None) -> PendingRequest:
        """Ask a worker, and do not wait; see `WorkerProcess.ask`."""
        if not self._processes:
            self._processes += [WorkerProcess() for _ in range(self.count)]
            for process in self._processes:
                for number, payload in enumerate(self._payloads):
                    process.send(RegisterSource(number, payload))
        return self._processes[worker % self.count].submit(source, turn, rows)

    def close(self) -> None:
        """End all workers, in a second at most. Another request begins new ones."""
        _end(self._processes)


def _end(processes: list[WorkerProcess]) -> None:
    ending: Iterable[WorkerProcess] = list(processes)
    processes.clear()
    for process in ending:
        process.hang_up()
    deadline = time.monotonic() + 2 * GRACE
    for process in ending:
        process.end(deadline)
