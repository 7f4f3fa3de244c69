"""Messages between a program and its worker processes, over a pair of sockets."""

from __future__ import annotations

import pickle
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.sources.external.processes.shared_memory import ArrayLocation
from penstock.sources.stream import BatchRequest

_FLAGS = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class RegisterSource:
    """A source, which requests will name by its number.

    Args:
        source: the number.
        payload: the pickled stream.
    """

    source: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a batch, or for some rows of one.

    Args:
        ticket: names the request.
        source: the number of the source.
        turn: which batch.
        rows: the first row and the one behind the last; None for the batch as a whole.
        returned: the segments of memory whose contents nobody needs any more.
    """

    ticket: int
    source: int
    turn: BatchRequest
    rows: tuple[int, int] | None
    returned: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Response:
    """What the source gave.

    Args:
        ticket: of the request.
        segment: the number of the memory that holds it. A descriptor comes with the message where it is new.
        columns: where the samples of each output lie there.
        dropped: the segments that the worker will not use again.
    """

    ticket: int
    segment: int
    columns: list[ArrayLocation | list[ArrayLocation]]
    dropped: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """Why the source gave nothing.

    Args:
        ticket: of the request.
        error: what is raised for it.
        cause: what the user's code raised, where that can be pickled.
    """

    ticket: int
    error: Exception
    cause: BaseException | None = None


class Channel:
    """One end of a connection.

    Args:
        end: its socket.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def send(self, message: object, descriptor: int | None = None) -> None:
        """Send a message, and perhaps a file descriptor, which stays the sender's, too.

        Raises:
            OSError: the other side has ended.
        """
        body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        header = len(body).to_bytes(8, "little")
        if descriptor is None:
            self._end.sendall(header + body)
        else:
            socket.send_fds(self._end, [header], [descriptor])
            self._end.sendall(body)

    def receive(self) -> tuple[Any, int | None]:
        """The next message, and the file descriptor that came with it.

        Raises:
            EOFError: the other side has ended, or this one has hung up.
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
        """End the connection. Whoever waits for a message, on either side, gets an EOFError."""
        with suppress(OSError):
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
