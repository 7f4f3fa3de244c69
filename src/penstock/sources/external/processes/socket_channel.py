"""Messages between a program and its worker processes, over a pair of sockets.

A message is a pickled object after its length, 8 bytes in little-endian order. A file descriptor may accompany the
length (SCM_RIGHTS).
"""

import errno
import os
import pickle
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.sources.external.processes.shared_memory import ArrayLocation, refused_memory

# Received descriptors must not leak into processes that the user starts. macOS lacks the flag.
_FLAGS = getattr(socket, "MSG_CMSG_CLOEXEC", 0)

# Errors of a descriptor that the system does not pass: too many are on their way, or no memory.
_REFUSALS = (errno.ETOOMANYREFS, errno.EMFILE, errno.ENOMEM, errno.ENOBUFS)


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
class ShareSegment:
    """Message with the file descriptor of memory into which requests write.

    Args:
        segment: Number by which requests refer to the memory.
    """

    segment: int


@dataclass(frozen=True, slots=True)
class Request:
    """Message that requests the result of a task.

    Args:
        ticket: Number of the request.
        task: Number of the task.
        call: Argument of the task: picklable and small.
        returned: Segments that the worker may reuse.
        freed: Segments of the program that the worker may forget.
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
            ResourceError: The system does not pass the descriptor. Nothing was sent.
        """
        body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        header = len(body).to_bytes(8, "little")
        if descriptor is None:
            self._end.sendall(header + body)
        else:
            # The descriptor goes with the short header, which a single call always sends completely.
            try:
                socket.send_fds(self._end, [header], [descriptor])
            except OSError as error:
                if error.errno in _REFUSALS:
                    raise refused_memory(error) from error
                raise
            self._end.sendall(body)

    def receive(self) -> tuple[Any, int | None]:
        """Return the next message, and the file descriptor that came with it or None.

        Raises:
            EOFError: The other side has ended, or this side has hung up.
            ResourceError: This process cannot receive the descriptor. The message is lost, and the next one is intact.
        """
        try:
            header, descriptors, flags, _ = socket.recv_fds(self._end, 8, 1, _FLAGS)
            header += self._exactly(8 - len(header)) if header else b""
            body = self._exactly(int.from_bytes(header, "little")) if header else b""
        except OSError as error:
            raise EOFError from error
        if not header:
            raise EOFError
        if flags & socket.MSG_CTRUNC:  # the kernel drops descriptors of a process that is at its limit
            raise refused_memory(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
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
