"""Server for the read-only part of S3 that responds after a delay and needs little CPU time.

The bucket "bucket" contains several copies of the files of a folder: "0/a.jpg", "1/a.jpg". The server prints its port.
A complete server, such as moto, needs more CPU time per request than decoding the photograph.

    python benchmarks/object_server.py FOLDER COPIES MILLISECONDS
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import socket
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

# A file in memory and its size in bytes.
Answer = tuple[BinaryIO, int]


class DelayQueue:
    """Queue that calls functions after a constant delay. Cheaper than the event loop, which sorts its calls by time."""

    def __init__(self, delay: float) -> None:
        self._delay, self._loop = delay, asyncio.get_running_loop()
        self._queue: deque[tuple[float, Callable[[bytes], None], bytes]] = deque()

    def call(self, function: Callable[[bytes], None], argument: bytes) -> None:
        """Call a function after the delay."""
        self._queue.append((self._loop.time() + self._delay, function, argument))
        if len(self._queue) == 1:
            self._loop.call_at(self._queue[0][0], self._run)

    def _run(self) -> None:
        now = self._loop.time() + 0.0005
        while self._queue and self._queue[0][0] <= now:
            _, function, argument = self._queue.popleft()
            function(argument)
        if self._queue:
            self._loop.call_at(self._queue[0][0], self._run)


class Connection(asyncio.Protocol):
    """Connection of a client."""

    def __init__(
        self, files: dict[str, tuple[bytes, str]], answers: dict[bytes, Answer], copies: int, queue: DelayQueue
    ):
        self._files, self._answers, self._copies, self._queue = files, answers, copies, queue
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Enlarge the send buffer."""
        self._transport = transport
        self._socket = transport.get_extra_info("socket")
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)  # large enough for a complete answer

    def data_received(self, data: bytes) -> None:
        """Answer each complete request after the delay."""
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            self._queue.call(self._answer, head)

    def _answer(self, request: bytes) -> None:
        line = request[: request.index(b"\r\n")]
        ready = self._answers.get(line[line.index(b"/", len(b"GET /bucket/")) :]) if line.count(b"/") > 3 else None
        if ready is not None and b"\r\nrange:" not in request.lower():
            return self._send_ready(*ready)
        head = request.decode()
        method, target, _ = line.decode().split()
        url = urlsplit(target)
        query = parse_qs(url.query)
        if "list-type" in query:
            return self._send("200 OK", self._listing(query.get("prefix", [""])[0]), "content-type: application/xml")
        copy, _, name = unquote(url.path).removeprefix("/bucket/").partition("/")
        if name not in self._files or not copy.isdigit() or int(copy) >= self._copies:
            return self._send("404 Not Found", b"", "")
        data, tag = self._files[name]
        status, headers = "200 OK", _validators(tag)
        if match := re.search(r"\r\nrange: bytes=(\d+)-(\d+)", head, re.IGNORECASE):
            first, last = int(match[1]), min(int(match[2]), len(data) - 1)
            headers += f"\r\ncontent-range: bytes {first}-{last}/{len(data)}"
            status, data = "206 Partial Content", data[first : last + 1]
        return self._send(status, data, headers, body=method != "HEAD")

    def _listing(self, prefix: str) -> bytes:
        copy = prefix.rstrip("/")
        folders = [] if copy else [f"<Prefix>{number}/</Prefix>" for number in range(self._copies)]
        objects = [
            f"<Key>{copy}/{escape(name)}</Key><LastModified>2026-11-01T00:00:00.000Z</LastModified>"
            f"<ETag>&quot;{tag}&quot;</ETag><Size>{len(data)}</Size>"
            for name, (data, tag) in self._files.items()
            if copy
        ]
        parts = [f"<CommonPrefixes>{folder}</CommonPrefixes>" for folder in folders]
        parts += [f"<Contents>{item}</Contents>" for item in objects]
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(parts)}</ListBucketResult>".encode()

    def _send_ready(self, answer: BinaryIO, size: int) -> None:
        """Send an answer with sendfile, without a copy; write the rest that does not fit into the send buffer."""
        sent = 0
        if not self._transport.get_write_buffer_size():
            with contextlib.suppress(BlockingIOError):
                sent = os.sendfile(self._socket.fileno(), answer.fileno(), 0, size)
        if sent < size:
            self._transport.write(os.pread(answer.fileno(), size - sent, sent))

    def _send(self, status: str, data: bytes, headers: str, *, body: bool = True) -> None:
        response = _response(status, data, headers)
        self._transport.write(response if body else response[: -len(data) or None])


def _validators(tag: str) -> str:
    return f'etag: "{tag}"\r\nlast-modified: Sun, 01 Nov 2026 00:00:00 GMT'


def _response(status: str, data: bytes, headers: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-length: {len(data)}\r\n{headers}\r\n\r\n".replace("\r\n\r\n\r\n", "\r\n\r\n")
    return head.encode() + data


def _in_memory(data: bytes) -> Answer:
    file = os.fdopen(os.memfd_create("answer"), "w+b", buffering=0)
    file.write(data)
    return file, len(data)


async def main(contents: dict[str, bytes], copies: int, delay: float) -> None:
    """Serve until the process is killed."""
    files = {name: (data, hashlib.md5(data, usedforsecurity=False).hexdigest()) for name, data in contents.items()}
    answers = {
        f"/{quote(name)} HTTP/1.1".encode(): _in_memory(_response("200 OK", data, _validators(tag)))
        for name, (data, tag) in files.items()
    }
    loop, queue = asyncio.get_running_loop(), DelayQueue(delay)
    server = await loop.create_server(lambda: Connection(files, answers, copies, queue), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    contents = {path.name: path.read_bytes() for path in sorted(Path(sys.argv[1]).iterdir())}
    asyncio.run(main(contents, int(sys.argv[2]), float(sys.argv[3]) / 1000))
