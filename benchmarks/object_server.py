"""A server that speaks as much of S3 as reading needs, each answer after a delay, for little CPU time.

It holds the files of a folder in the bucket "bucket", each several times: "0/a.jpg", "1/a.jpg". It prints its port.

    python benchmarks/object_server.py FOLDER COPIES MILLISECONDS
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import sys
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class Connection(asyncio.Protocol):
    """A client."""

    def __init__(self, files: dict[str, tuple[bytes, str]], copies: int, delay: float) -> None:
        self._files, self._copies, self._delay = files, copies, delay
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each request, later."""
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            asyncio.get_running_loop().call_later(self._delay, self._answer, head.decode())

    def _answer(self, head: str) -> None:
        method, target, _ = head.split("\r\n", 1)[0].split()
        url = urlsplit(target)
        query = parse_qs(url.query)
        if "list-type" in query:
            return self._send("200 OK", self._listing(query.get("prefix", [""])[0]), "content-type: application/xml")
        copy, _, name = unquote(url.path).removeprefix("/bucket/").partition("/")
        if name not in self._files or not copy.isdigit() or int(copy) >= self._copies:
            return self._send("404 Not Found", b"", "")
        data, tag = self._files[name]
        status, more = "200 OK", f'etag: "{tag}"\r\nlast-modified: Sun, 01 Nov 2026 00:00:00 GMT'
        if found := re.search(r"\r\nrange: bytes=(\d+)-(\d+)", head, re.IGNORECASE):
            first, last = int(found[1]), min(int(found[2]), len(data) - 1)
            more += f"\r\ncontent-range: bytes {first}-{last}/{len(data)}"
            status, data = "206 Partial Content", data[first : last + 1]
        return self._send(status, data, more, body=method != "HEAD")

    def _listing(self, prefix: str) -> bytes:
        copy = prefix.rstrip("/")
        folders = [] if copy else [f"<Prefix>{number}/</Prefix>" for number in range(self._copies)]
        objects = [
            f"<Key>{copy}/{escape(name)}</Key><LastModified>2026-11-01T00:00:00.000Z</LastModified>"
            f"<ETag>&quot;{tag}&quot;</ETag><Size>{len(data)}</Size>"
            for name, (data, tag) in self._files.items()
            if copy
        ]
        parts = [f"<CommonPrefixes>{each}</CommonPrefixes>" for each in folders]
        parts += [f"<Contents>{each}</Contents>" for each in objects]
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(parts)}</ListBucketResult>".encode()

    def _send(self, status: str, data: bytes, more: str, *, body: bool = True) -> None:
        head = f"HTTP/1.1 {status}\r\ncontent-length: {len(data)}\r\n{more}\r\n\r\n".replace("\r\n\r\n\r\n", "\r\n\r\n")
        self._transport.writelines([head.encode(), data if body else b""])


async def main(contents: dict[str, bytes], copies: int, delay: float) -> None:
    """Serve until it is killed."""
    files = {name: (data, hashlib.md5(data, usedforsecurity=False).hexdigest()) for name, data in contents.items()}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(files, copies, delay), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    found = {path.name: path.read_bytes() for path in sorted(Path(sys.argv[1]).iterdir())}
    asyncio.run(main(found, int(sys.argv[2]), float(sys.argv[3]) / 1000))
