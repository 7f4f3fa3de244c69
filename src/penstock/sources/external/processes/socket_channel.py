"""Messages between a program and its worker processes, over a pair of sockets.

A message is a pickled object after its length, 8 bytes in little-endian order. A file descriptor may accompany the
length (SCM_RIGHTS).
"""

import pickle
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.sources.external.processes.shared_memory import ArrayLocation

# Received descriptors must not leak into processes that the user starts. macOS lacks the flag.
_FLAGS = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class RegisterTask:
    """Message that registers a task. A file descriptor of its large arrays accompanies it, if there are any.

    Args:
        task: Number by which requests refer to the task.
        payload: Pickled task; see `penstock.sources.external.processes.worker_main.Task`.
        arrays: Location of each large array.
    """

    task: int
    payload: bytes
    arrays: tuple[ArrayLocation, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareBuffer:
    """Message with the file descriptor of memory into which requests write.

    Args:
        buffer: Number by which requests refer to the memory.
    """

    buffer: int


@dataclass(frozen=True, slots=True)
class Request:
    """Message that requests the result of a task.

    Args:
        ticket: Number of the request.
        task: Number of the task.
        call: Argument of the task: picklable and small.
        returned: Segments that the worker may reuse.
        freed: Buffers that the worker may forget.
    """

    ticket: int
    task: int
    call: Any
    returned: tuple[int, ...]
    freed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Response:
    """Message with a result.

    Args:
        ticket: Number of the request.
        segment: Number of the segment that holds the columns. A file descriptor accompanies the message if the segment
            is new.
        columns: Locations of the columns in the segment.
        dropped: Segments that the worker will not use again.
        details: Further results: picklable and small.
    """

    ticket: int
    segment: int
    columns: list[ArrayLocation | list[ArrayLocation]]
    dropped: tuple[int, ...]
    details: Any = None


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """Message that a task has failed.

    Args:
        ticket: Number of the request.
        error: Exception to raise for the request.
        cause: Exception of the user's code, if it can be pickled.
    """

    ticket: int
    error: Exception
    cause: BaseException | None = None


class Channel:
    """One end of a connection.

    Args:
        end: Its socket.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def send(self, message: object, descriptor: int | None = None) -> None:
        """Send a message, optionally with a duplicate of a file descriptor.

        Raises:
            OSError: The other side has ended.
        """
        body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        header = len(body).to_bytes(8, "little")
        if descriptor is None:
            self._end.sendall(header + body)
        else:
            # The descriptor goes with the short header, which a single call always sends completely.
            socket.send_fds(self._end, [header], [descriptor])
            self._end.sendall(body)

    def receive(self) -> tuple[Any, int | None]:
        """Return the next message, and the file descriptor that came with it or None.

        Raises:
            EOFError: The other side has ended, or this side has hung up.
        """
        try:
            header, descriptors, _, _ = socket.recv_fds(self._end, 8, 1, _FLAGS)
            header += self._exactly(8 - len(header)) if header else b""
            body = self._exactly(int.from_bytes(header, "little")) if header else b""
        except OSError as error:
            raise EOFError from error
        if not header:
            raise EOFError
        return pickle.loads(body), descriptors[0] if descriptors else None

    def hang_up(self) -> None:
        """Close the connection. Threads that wait for a message on either side get an EOFError."""
        with suppress(OSError):
            # `close` alone does not wake a thread that is blocked in `recv`.
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()

    def _exactly(self, count: int) -> bytes:
        parts: list[bytes] = []
        while count:
            part = self._end.recv(min(count, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)
