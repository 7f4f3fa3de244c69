"""Objects over connections of our own: one thread asks for several at once, for a third of the library's CPU time.

A thread that asks the library for an object is woken several times until it has it, which takes longer than to copy a
photograph. Here all requests of a group are sent before the first answer is read. Only answers as they should be are
known. What else comes is not judged: the library is asked, which repeats requests, follows redirections and knows what
errors mean.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import struct
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import getproxies

import numpy as np

from penstock.data.stores.extent import Answer, Extent

_CONNECT = 5.0
"""Seconds that a server may take to accept a connection."""
_PATIENCE = 30
"""Seconds that a server may be silent, and that the answers of a group may take."""
_IDLE = 4.0
"""Seconds after which a connection is not used again: some servers close theirs after 5."""
_HEAD = 1 << 13
_LONGEST_PAUSE = 1 << 10
_HOUR = timedelta(hours=1)

_FIELDS = re.compile(rb"(?i)\r\n(content-length|content-range|etag|connection|transfer-encoding):[ \t]*([^\r]*)")
_ODD_KEY = re.compile(r"(^|/)\.{0,2}(/|$)")
"""Keys that URLs cannot have as they are."""


class Direct:
    """Asks one server.

    Args:
        origin: the scheme, the host and the port.
        target: the rest of an object's URL, by its key; with the signature, where one is needed.
    """

    def __init__(self, origin: str, target: Callable[[str], str]) -> None:
        parts = urlsplit(origin)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._place = parts.hostname or "", parts.port or (443 if self._tls else 80)
        self._target = target
        self._headers = f"host: {parts.netloc}\r\naccept: */*\r\nuser-agent: penstock\r\n"
        self._idle: list[_Connection] = []
        self._pause = self._next_pause = 0

    def get(self, asked: Sequence[tuple[Extent, str]]) -> list[Answer | None]:
        """Ask for a group of extents, all at once.

        After a group of which nothing came, the library is to be asked for what follows, too: for ever more of it,
        while nothing comes.

        Args:
            asked: each extent, and the key of its object.

        Returns:
            Their answers; None where the library is to be asked.
        """
        if self._pause > 0:
            self._pause -= len(asked)
            return [None] * len(asked)
        connections = [self._ask(extent, key) for extent, key in asked]
        until = time.monotonic() + _PATIENCE
        answers = [
            None if connection is None else self._answer(connection, extent, until)
            for connection, (extent, _) in zip(connections, asked, strict=True)
        ]
        self._next_pause = 0 if any(answers) else min(2 * self._next_pause + 1, _LONGEST_PAUSE)
        self._pause = self._next_pause
        return answers

    def rest(self) -> None:
        """Close the connections that are not in use."""
        self._idle.clear()

    def _ask(self, extent: Extent, key: str) -> _Connection | None:
        try:
            request = self._request(extent, key)
            connection = self._free() or _Connection(self._place, self._tls)
            connection.send(request)
        except Exception:  # noqa: BLE001  # the library says what is wrong
            return None
        return connection

    def _request(self, extent: Extent, key: str) -> bytes:
        """A request.

        Raises:
            ValueError: no request can have that key or that ETag.
        """
        if _ODD_KEY.search(key) or not extent.tag.isprintable():
            raise ValueError
        lines = f"GET {self._target(key)} HTTP/1.1\r\n{self._headers}"
        if extent.tag.startswith('"'):
            lines += f"if-match: {extent.tag}\r\n"
        if extent.stop is not None:
            lines += f"range: bytes={extent.start}-{extent.stop - 1}\r\n"
        return f"{lines}\r\n".encode("ascii")

    def _free(self) -> _Connection | None:
        """A connection that is not in use."""
        with contextlib.suppress(IndexError):  # there is none
            while time.monotonic() - (connection := self._idle.pop()).used < _IDLE:
                return connection
            self._idle.clear()  # those below were used before
        return None

    def _answer(self, connection: _Connection, extent: Extent, until: float) -> Answer | None:
        try:
            answer, reusable = connection.read(extent, until)
        except Exception:  # noqa: BLE001  # likewise
            return None
        if reusable:
            self._idle.append(connection)
        return answer


class _Connection:
    """A connection to a server, which is closed when nobody holds it any more."""

    def __init__(self, place: tuple[str, int], tls: ssl.SSLContext | None) -> None:
        self._socket: socket.socket = socket.create_connection(place, _CONNECT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._flags = 0
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=place[0])
            self._socket.settimeout(_PATIENCE)
        elif os.name == "posix":  # the kernel waits until all is there: Python need not look after each part
            self._socket.settimeout(None)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _PATIENCE, 0))
            self._flags = socket.MSG_WAITALL
        self.used = time.monotonic()

    def send(self, request: bytes) -> None:
        """Send a request.

        Raises:
            OSError: the connection does not take it.
        """
        self._socket.sendall(request)

    def read(self, extent: Extent, until: float) -> tuple[Answer, bool]:
        """The answer to a request for an extent, and whether the connection takes another one.

        Raises:
            OSError: the connection ends, or the server is silent.
            ValueError: the answer is another one than was expected, or takes too long.
        """
        head = self._socket.recv(_HEAD)
        while (end := head.find(b"\r\n\r\n")) < 0:
            more = self._socket.recv(_HEAD - len(head)) if time.monotonic() < until else b""
            if not more:
                raise ValueError("no head")
            head += more
        head, begun = head[: end + 2], memoryview(head)[end + 4 :]
        fields = {name.lower(): value.strip() for name, value in _FIELDS.findall(head)}
        length, tag = int(fields.get(b"content-length", b"-1")), fields.get(b"etag", b"").decode("ascii")
        status, part, expected = b"HTTP/1.1 200", b"", length
        if extent.stop is not None:
            status, part = b"HTTP/1.1 206", b"bytes %d-%d/" % (extent.start, extent.stop - 1)
            expected = extent.stop - extent.start
        if (
            not head.startswith(status)
            or not fields.get(b"content-range", b"").startswith(part)
            or length != expected
            or b"transfer-encoding" in fields
            or not tag.endswith('"')
            or extent.tag not in ("", tag)
        ):
            raise ValueError("another answer")
        data = np.empty(length, np.uint8)
        self._fill(data.data, begun, until)
        data.setflags(write=False)
        self.used = time.monotonic()
        return (data, tag), fields.get(b"connection", b"").lower() != b"close"

    def _fill(self, view: memoryview, begun: memoryview, until: float) -> None:
        """Fill memory with a body, of which the beginning is there."""
        done = len(begun)
        view[:done] = begun  # fails where there is more than the body
        while done < len(view):
            count = self._socket.recv_into(view[done:], 0, self._flags)
            if not count or time.monotonic() > until:
                raise ValueError("cut short")
            done += count

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()


def direct_to(api: Any, scheme: str, bucket: str, client: Any, settings: dict[str, str]) -> Direct | None:
    """What asks for the objects of a bucket or of a web server; None where the library alone can.

    Args:
        api: the library.
        scheme: that of the paths.
        bucket: its name, or the web server's.
        client: the library's, for this bucket.
        settings: environment variables on which it depends.
    """
    if getproxies() or "@" in bucket:
        return None
    if scheme.startswith("http"):
        return Direct(f"{scheme}://{bucket}", lambda key: "/" + quote(key, "/!*'(),;:@&=$+|^[]"))
    if scheme != "s3":
        return None
    unsigned = settings.get("AWS_SKIP_SIGNATURE", "").lower() in ("1", "true", "on", "yes", "y")
    if unsigned:  # how its URLs look, those of a client that signs show, up to the signature
        client = api.store.S3Store(bucket, access_key_id="nobody", secret_access_key="-")
    url: str = api.sign(client, "GET", "key", _HOUR)
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    if unsigned:
        folder = parts.path.removesuffix("key")
        return Direct(origin, lambda key: folder + quote(key))
    return Direct(origin, lambda key: api.sign(client, "GET", key, _HOUR)[len(origin) :])
