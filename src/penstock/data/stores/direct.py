"""Objects over connections of our own, for half of the CPU time that the library's cost.

Only answers as they should be are known here. What else comes is not judged: the library is asked, which repeats
requests, follows redirections and knows what errors mean.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import struct
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import getproxies

import numpy as np

from penstock.data.source import Array
from penstock.data.stores.extent import Extent

_PATIENCE = 30
"""Seconds that a connection may take, and the body of an answer."""
_IDLE = 15.0
"""Seconds after which a connection is not used again: whoever is between may have forgotten it."""
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
        weakref.finalize(self, _close_all, self._idle)

    def get(self, extent: Extent, key: str) -> tuple[Array, str] | None:
        """The bytes of an extent and the object's ETag; None where the library is to be asked.

        It is to be asked for the objects after a failure, too: ever more of them, while nothing succeeds.
        """
        if self._pause > 0:
            self._pause -= 1
            return None
        try:
            answer = None if _ODD_KEY.search(key) else self._answer(extent, key)
        except Exception:  # noqa: BLE001  # the library says what is wrong
            answer = None
        self._next_pause = 0 if answer else min(2 * self._next_pause + 1, _LONGEST_PAUSE)
        self._pause = self._next_pause
        return answer

    def _answer(self, extent: Extent, key: str) -> tuple[Array, str] | None:
        lines = f"GET {self._target(key)} HTTP/1.1\r\n{self._headers}"
        if extent.tag.startswith('"'):
            lines += f"if-match: {_one_line(extent.tag)}\r\n"
        if extent.stop is not None:
            lines += f"range: bytes={extent.start}-{extent.stop - 1}\r\n"
        connection = self._asked(f"{lines}\r\n".encode("ascii"))
        reusable = False
        try:
            data, tag, reusable = connection.read(extent)
        finally:
            if reusable:
                self._idle.append(connection)
            else:
                connection.close()
        return data, tag

    def _asked(self, request: bytes) -> _Connection:
        """A connection on which an answer begins."""
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread has taken it
                connection = self._idle.pop()
                if connection.ask(request):
                    return connection
        connection = _Connection(self._place, self._tls)
        if connection.ask(request):
            return connection
        raise ConnectionError


class _Connection:
    def __init__(self, place: tuple[str, int], tls: ssl.SSLContext | None) -> None:
        made = socket.create_connection(place, _PATIENCE)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._flags = 0
        if tls is not None:
            made = tls.wrap_socket(made, server_hostname=place[0])
        elif os.name == "posix":  # the kernel waits until all is there: Python need not look after each part
            made.settimeout(None)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _PATIENCE, 0))
            self._flags = socket.MSG_WAITALL
        self._socket, self._head, self._count = made, bytearray(_HEAD), 0
        self._used = time.monotonic()

    def ask(self, request: bytes) -> bool:
        """Send a request, and wait for the answer's first bytes. Where none come, the connection is closed.

        Raises:
            TimeoutError: nothing comes for a while.
        """
        try:
            if time.monotonic() - self._used < _IDLE:
                self._socket.sendall(request)
                self._count = self._socket.recv_into(self._head)
                if self._count:
                    return True
        except (TimeoutError, BlockingIOError):
            self.close()
            raise
        except OSError:
            pass
        self.close()
        return False

    def read(self, extent: Extent) -> tuple[Array, str, bool]:
        """The bytes of an extent, the object's ETag, and whether the connection may be used again.

        Raises:
            OSError: the connection ends, or is slow.
            ValueError: the answer is another one than was expected.
        """
        while (end := self._head.find(b"\r\n\r\n", 0, self._count)) < 0:
            more = self._socket.recv_into(memoryview(self._head)[self._count :])
            if not more:
                raise ValueError("no head")
            self._count += more
        head = bytes(self._head[: end + 2])
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
        self._fill(data.data, end + 4)
        data.setflags(write=False)
        self._used = time.monotonic()
        return data, tag, fields.get(b"connection", b"").lower() != b"close"

    def _fill(self, view: memoryview, start: int) -> None:
        """Fill memory with the body, which begins in the head's memory."""
        at = self._count - start
        view[:at] = memoryview(self._head)[start : self._count]  # fails where the server says more than the body
        until = time.monotonic() + _PATIENCE
        while at < len(view):
            count = self._socket.recv_into(view[at:], 0, self._flags)
            if not count or time.monotonic() > until:
                raise ValueError("cut short")
            at += count

    def close(self) -> None:
        """Close it."""
        self._socket.close()


def _one_line(tag: str) -> str:
    if not tag.isprintable():
        raise ValueError("no header")
    return tag


def _close_all(connections: list[_Connection]) -> None:
    for connection in connections:
        connection.close()


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
