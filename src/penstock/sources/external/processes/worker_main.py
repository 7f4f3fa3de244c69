"""Main function of a worker process: it runs tasks on request until the parent process ends or hangs up."""

import mmap
import os
import pickle
import signal
import socket
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from queue import SimpleQueue
from types import FrameType
from typing import Any, Protocol

from penstock.core.call_site import PACKAGE
from penstock.errors import ResourceError, SourceError
from penstock.sources.external.processes.shared_memory import SharedSegments, opened, unpickled
from penstock.sources.external.processes.socket_channel import (
    Channel,
    ErrorResponse,
    RegisterTask,
    Request,
    Response,
    ShareSegment,
)
from penstock.sources.stream import Columns

_LEFT_TO_THE_PARENT = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")

# Seconds that a task has to return after the parent has hung up.
GRACE = 0.5

# A message is None after the connection is closed, and an error if its descriptor could not be received.
_Messages = SimpleQueue[tuple[Any, int | None] | None]


class Task(Protocol):
    """Work of a worker process. It is pickled once and sent to each worker."""

    def run(self, call: Any, buffers: Mapping[int, mmap.mmap]) -> tuple[Columns, Any]:
        """Compute the result of a request.

        Args:
            call: Argument of the request.
            buffers: Memory that the parent shares, by the number of the segment. The task may write into it.

        Returns:
            Columns, which are copied to the parent, and details, which are pickled.

        Raises:
            Exception: Any error; the parent raises it.
        """
        ...


def serve(descriptor: int) -> None:
    """Answer requests until the parent hangs up.

    Args:
        descriptor: File descriptor of the socket to the parent.
    """
    # Ctrl-C reaches the whole process group, and SLURM signals all processes of a job. The parent handles
    # that, and ends its workers. A program that a task starts would inherit `SIG_IGN`, but not this handler.
    for name in _LEFT_TO_THE_PARENT:
        signal.signal(getattr(signal, name), _leave_to_the_parent)
    channel = Channel(socket.socket(fileno=descriptor))
    messages: _Messages = SimpleQueue()
    threading.Thread(target=_listen, args=(channel, messages), daemon=True).start()
    worker = _Worker(channel)
    with suppress(OSError):  # the parent has ended before the response was sent
        while (message := messages.get()) is not None:
            worker.handle(*message)


def _leave_to_the_parent(number: int, frame: FrameType | None) -> None:
    """Ignore a signal."""
    del number, frame


def _listen(channel: Channel, messages: _Messages) -> None:
    """Receive messages while a task runs, and end the process when the connection is closed."""
    try:
        while True:
            try:
                messages.put(channel.receive())
            except ResourceError as error:
                messages.put((error, None))
    except EOFError:
        pass
    except BaseException:  # noqa: BLE001  # the parent would wait forever for a process that does not listen
        traceback.print_exc()
    messages.put(None)
    # The main thread ends after the current request. A task that hangs must not keep the process alive, and only
    # `_exit` ends it without waiting.
    time.sleep(GRACE)
    os._exit(1)


class _Worker:
    """Tasks of a worker, and its shared memory."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._payloads: dict[int, tuple[RegisterTask, mmap.mmap | None]] = {}
        self._segments = SharedSegments()
        self._buffers: dict[int, mmap.mmap] = {}
        self._tasks: dict[int, Task] = {}
        # Error of memory of the parent that this process could not map.
        self._missing: ResourceError | None = None

    def handle(self, message: RegisterTask | ShareSegment | Request | ResourceError, descriptor: int | None) -> None:
        """Handle a message and the file descriptor that came with it.

        Raises:
            SystemExit: Memory of the parent is missing, and the parent has received an error for a request. The parent
                starts another worker.
        """
        if isinstance(message, Request):
            if self._missing is not None:
                self._channel.send(_failure(message.ticket, self._missing))
                raise SystemExit(1)
            self._answer(message)
            return
        if isinstance(message, ResourceError):
            self._missing = message
            return
        try:
            memory = None if descriptor is None else opened(descriptor)
        except ResourceError as error:
            self._missing = error
            return
        if isinstance(message, RegisterTask):
            self._payloads[message.task] = message, memory
        elif memory is not None:
            self._buffers[message.segment] = memory

    def _answer(self, request: Request) -> None:
        """Run a task and send its result."""
        self._segments.recycle(request.returned)
        for number in request.freed:
            self._buffers.pop(number, None)
        try:
            columns, details = self._task(request.task).run(request.call, self._buffers)
            segment, places, dropped, descriptor = self._segments.put(columns)
        except Exception as error:  # noqa: BLE001  # the parent raises it
            self._channel.send(_failure(request.ticket, error))
            return
        try:
            self._channel.send(Response(request.ticket, segment, places, dropped, details), descriptor)
        except ResourceError as error:  # the parent will never have this segment
            self._channel.send(_failure(request.ticket, error))
            raise SystemExit(1) from error
        finally:
            if descriptor is not None:
                os.close(descriptor)  # the parent has received a duplicate, and the mapping keeps the memory alive

    def _task(self, number: int) -> Task:
        if number not in self._tasks:
            message, memory = self._payloads[number]
            try:
                # Tasks are loaded on first use, so that an error is reported for the batch that needs the task.
                self._tasks[number] = unpickled(message.payload, message.arrays, memory)
            except SourceError:  # such as a file that has been written to
                raise
            except Exception as error:
                raise SourceError(
                    f"a worker process cannot load its work: {type(error).__name__}: {error}",
                    fix="define it in a module that worker processes can import; its attributes are pickled",
                ) from error
        return self._tasks[number]


def _failure(ticket: int, error: Exception) -> ErrorResponse:
    """Return a response with an error, the line that raised it, and the cause if it can be pickled."""
    cause = error.__cause__
    if cause is not None:
        message = error.args[0] if error.args else type(error).__name__
        # A cause that was never raised does not have a traceback.
        line = _line_of(error if cause.__traceback__ is None else cause)
        error.args = (f"{message}\n  raised at: {line}, in worker process {os.getpid()}",)
        # Tracebacks cannot be pickled, so the formatted traceback travels as a note.
        error.add_note("".join(traceback.format_exception(cause)))
        cause = cause if _survives_pickling(cause) else None
    if not _survives_pickling(error):
        error = SourceError(f"{type(error).__name__}: {error}")
    return ErrorResponse(ticket, error, cause)


def _survives_pickling(error: BaseException) -> bool:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  # pickling a user's exception may raise anything
        return False
    return True


def _line_of(error: BaseException) -> str:
    """Return the innermost line outside of this package in an error's traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((frame for frame in frames if not frame.filename.startswith(PACKAGE)), frames[-1])
    return f"{frame.filename}:{frame.lineno} in {frame.name}"
