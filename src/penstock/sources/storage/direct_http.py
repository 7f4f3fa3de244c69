"""Short extents over connections of our own: one thread asks for many at once.

A thread that asks the library for an object is woken several times until it has it, which takes longer than to copy a
photograph. Here all requests of a group are sent before the first answer is read. Only answers that are exactly as
expected are taken. What else comes is not judged: the library is asked, which repeats requests, follows redirections
and knows what errors mean.
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
from urllib.request import getproxies, proxy_bypass

import numpy as np

from penstock.sources.storage.byte_range import Answer, ByteRange
from penstock.sources.storage.sample_limit import max_sample_size

_CONNECT = 5.0
"""Seconds that a server may take to accept a connection."""
_SILENCE = 30.0
"""Seconds between bytes of an answer after which no more of its group is waited for."""
_WHOLE = 120.0
"""Seconds that the answers of a group may take."""
_IDLE = 4.0
"""Seconds after which a connection is not used again: some servers close theirs after 5."""
_HEAD = 1 << 13
_LONGEST = 1 << 23
"""Bytes of the longest body: what is longer comes as fast from the library."""
_LONGEST_PAUSE = 1 << 10
_SIGNED = timedelta(minutes=10)

_STATUS = b"HTTP/1.1 20"
_FIELDS = re.compile(rb"(?i)\r\n(content-length|content-range|etag|connection|transfer-encoding):[ \t]*([^\r]*)")
_ODD_KEY = re.compile(r"(^|/)\.{0,2}(/|$)")
"""Keys that clients would change in URLs."""


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
        self._family = socket.AF_UNSPEC
        self._idle: list[_Connection] = []
        self._pause = self._next_pause = 0

    @property
    def useless(self) -> bool:
        """Whether nothing came for so long that the library alone is asked."""
        return self._next_pause > _LONGEST_PAUSE

    def get(self, asked: Sequence[tuple[ByteRange, str]]) -> list[Answer | None]:
        """Ask for a group of extents, all at once.

        After a group of which nothing came, the library is to be asked for what follows, too: for twice as many extents
        as after the group before, and for all of them after eleven such groups in a row.

        Args:
            asked: each extent, and the key of its object.

        Returns:
            Their answers; None where the library is to be asked.
        """
        if self.useless or self._pause > 0:
            self._pause -= len(asked)
            return [None] * len(asked)
        until = time.monotonic() + _WHOLE
        connections = self._ask(asked, until)
        answers: list[Answer | None] = [None] * len(asked)
        for place, connection in enumerate(connections):
            try:
                answers[place] = connection.read(asked[place][0], until)
            except TimeoutError:
                until = 0.0  # what else has come by now is taken
            except Exception:  # noqa: BLE001  # the library says what is wrong
                continue
            else:
                if connection.lasting:
                    self._idle.append(connection)
        if any(answers):
            self._pause = self._next_pause = 0
        elif self._pause <= 0:  # else another thread has found the same
            self._pause = self._next_pause = 2 * self._next_pause + 1
        return answers

    def close_idle(self) -> None:
        """Close the connections that are not in use."""
        self._idle.clear()

    def _ask(self, asked: Sequence[tuple[ByteRange, str]], until: float) -> list[_Connection]:
        """Connections over which extents were asked for, up to the first that cannot be."""
        connections: list[_Connection] = []
        with contextlib.suppress(Exception):  # likewise
            for extent, key in asked:
                if time.monotonic() > until:
                    break
                request = self._request(extent, key)
                connection = self._free() or _Connection(self._connected(), self._place[0], self._tls)
                connection.send(request)
                connections.append(connection)
        return connections

    def _connected(self) -> socket.socket:
        """A connection to one of the server's addresses, first of the kind that has answered before.

        Raises:
            OSError: no address answers.
        """
        found = socket.getaddrinfo(*self._place, type=socket.SOCK_STREAM)
        found.sort(key=lambda each: each[0] != self._family)
        for family, *_, address in found:
            with contextlib.suppress(OSError):  # such as an IPv6 address to which there is no way
                made = socket.create_connection((str(address[0]), self._place[1]), _CONNECT)
                self._family = family
                return made
        raise OSError("no address of the server answers")

    def _request(self, extent: ByteRange, key: str) -> bytes:
        """A request.

        Raises:
            ValueError: no request can have that key or that ETag.
        """
        if _ODD_KEY.search(key) or not extent.etag.isprintable():
            raise ValueError
        lines = f"GET {self._target(key)} HTTP/1.1\r\n{self._headers}"
        if extent.etag.startswith('"'):
            lines += f"if-match: {extent.etag}\r\n"
        if extent.stop is not None:
            lines += f"range: bytes={extent.start}-{extent.stop - 1}\r\n"
        return f"{lines}\r\n".encode("ascii")

    def _free(self) -> _Connection | None:
        """A connection that is not in use."""
        with contextlib.suppress(IndexError):  # there is none
            connection = self._idle.pop()
            if time.monotonic() - connection.used < _IDLE and connection.quiet:
                return connection
            self._idle.clear()  # those below were used before
        return None


class _Connection:
    """A connection to a server, which is closed when nobody holds it any more.

    Args:
        connected: the socket.
        host: the name that the server's certificate has.
        tls: how certificates are checked; None for a connection without TLS.

    Attributes:
        lasting: whether it takes another request after the last answer.
        used: when that came.
    """

    def __init__(self, connected: socket.socket, host: str, tls: ssl.SSLContext | None) -> None:
        self._socket: socket.socket = connected
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._plain = tls is None and os.name == "posix"
        self._wait = 0.0
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        elif self._plain:
            self._socket.settimeout(None)  # the kernel waits, until all is there: Python need not look at each part
        self.lasting, self.used = True, time.monotonic()

    @property
    def quiet(self) -> bool:
        """Whether nothing has come that nobody asked for, such as the end."""
        if not self._plain:
            self._socket.settimeout(0)
        try:  # TLS has no such look
            socket.socket.recv(self._socket, 1, socket.MSG_PEEK | (socket.MSG_DONTWAIT if self._plain else 0))
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def send(self, request: bytes) -> None:
        """Send a request.

        Raises:
            OSError: the connection does not take it.
        """
        if not self._plain:
            self._socket.settimeout(_CONNECT)
        self._socket.sendall(request)

    def read(self, extent: ByteRange, until: float) -> Answer:
        """The answer to a request for an extent.

        Raises:
            TimeoutError: the server is silent.
            OSError: the connection ends.
            ValueError: it is another answer than was expected, or a longer one.
        """
        head = bytearray(_HEAD)
        count = end = 0
        while not end:
            count += self._receive(memoryview(head)[count:], until)
            end = head.find(b"\r\n\r\n", 0, count) + 1
            if not head.startswith(_STATUS[:count]) or (not end and b"\n\n" in head[:count]):
                raise ValueError("another answer")
        found = _FIELDS.findall(bytes(head[: end + 1]))
        fields = {name.lower(): value.strip() for name, value in found}
        length, tag = fields.get(b"content-length", b""), fields.get(b"etag", b"").decode("ascii")
        size, status, part = int(length), b"HTTP/1.1 200 ", b""
        if extent.stop is not None:
            size, status, part = extent.stop - extent.start, b"HTTP/1.1 206 ", b"bytes %d-%d/"
            part %= extent.start, extent.stop - 1
        if (
            not head.startswith(status)
            or len(fields) < len(found)
            or (length, fields.get(b"content-range", b"")[: len(part) or None]) != (b"%d" % size, part)
            or size > (min(_LONGEST, max_sample_size()) if extent.limited else _LONGEST)
            or b"transfer-encoding" in fields
            or not re.fullmatch('(W/)?"[^"]*"', tag)
            or extent.etag not in ("", tag)
        ):
            raise ValueError("another answer")
        data = np.empty(size, np.uint8)
        view, done = data.data, count - end - 3
        view[:done] = memoryview(head)[end + 3 : count]  # fails where there is more than the body
        while done < size:
            done += self._receive(view[done:], until, full=True)
        data.setflags(write=False)
        self.lasting, self.used = b"close" not in fields.get(b"connection", b"").lower(), time.monotonic()
        return data, tag

    def _receive(self, view: memoryview, until: float, *, full: bool = False) -> int:
        """Put what comes next into memory, perhaps only when that is full, and say how many bytes it is.

        Raises:
            TimeoutError: nothing comes.
            OSError: the connection ends.
        """
        wait, flags = max(min(_SILENCE, until - time.monotonic()), 0.0), 0
        if not self._plain:
            self._socket.settimeout(wait)
        elif not wait:
            flags = socket.MSG_DONTWAIT
        else:
            flags = socket.MSG_WAITALL if full else 0
            if wait != self._wait:
                seconds, part = divmod(wait, 1)
                times = struct.pack("ll", int(seconds), int(part * 1e6) or 1)
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, times)
                self._wait = wait
        try:
            count = self._socket.recv_into(view, 0, flags)
        except BlockingIOError:
            raise TimeoutError from None
        if not count:
            raise OSError("the connection ends, or the head is too long")
        return count

    def __del__(self) -> None:
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
    if any(name.startswith("AWS_SSE_CUSTOMER") for name in settings):  # requests need the key
        return None
    if scheme.startswith("http"):
        return _reached(f"{scheme}://{bucket}", lambda key: "/" + quote(key, "/!*'(),;:@&=$+|^[]"))
    if scheme != "s3":
        return None
    unsigned = settings.get("AWS_SKIP_SIGNATURE", "").lower() in ("1", "true", "on", "yes", "y")
    # how its URLs look, those of a client that signs show, up to the signature
    signer = api.store.S3Store(bucket, access_key_id="nobody", secret_access_key="-") if unsigned else client
    url: str = api.sign(signer, "GET", "key", _SIGNED)
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    if unsigned:
        folder = parts.path.removesuffix("key")
        return _reached(origin, lambda key: folder + quote(key))
    return _reached(origin, lambda key: api.sign(client, "GET", key, _SIGNED)[len(origin) :])


def _reached(origin: str, target: Callable[[str], str]) -> Direct | None:
    """What asks a server; None where that takes a proxy or a password."""
    parts, proxies = urlsplit(origin), getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if "@" in parts.netloc or (proxy and not proxy_bypass(parts.hostname or "")):
        return None
    return Direct(origin, target)
