"""A proxy before an object store that notes what it is asked, and fails as it is told."""

import contextlib
import http.client
import itertools
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

_BUSY = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_REFUSED = b"<Error><Code>InvalidAccessKeyId</Code><Message>The key does not exist in our records.</Message></Error>"


def request(port, method, path, body=None, headers=None):
    """Ask a server; the status, the headers and the body of its answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()
    finally:
        connection.close()


def _handler(port, lock, faults, asked):
    """What answers a request."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args):
            pass

        def do_GET(self):
            with lock:
                asked.append((self.command, self.path, self.headers.get("range")))
                fault = next((each for each in faults if each[1] in self.path), None)
                if fault is not None:
                    faults.remove(fault)
            how = fault and fault[0]
            if isinstance(how, threading.Event):
                how.wait()
            if how == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True
                return
            if how in ("503", "403"):
                status, headers, body = int(how), [], _BUSY if how == "503" else _REFUSED
            else:
                headers = {name.lower(): value for name, value in self.headers.items() if name.lower() != "host"}
                headers.setdefault("authorization", "AWS someone:unsigned")  # moto asks for one, and believes it
                status, headers, body = request(port, self.command, self.path, headers=headers)
            if how == "corrupt":
                body = bytes([body[0] ^ 1]) + body[1:]
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in ("content-length", "connection", "transfer-encoding", "server", "date"):
                    self.send_header(name, value)
            length = next((value for name, value in headers if name.lower() == "content-length"), len(body))
            self.send_header("Content-Length", str(length if self.command == "HEAD" else len(body)))
            self.end_headers()
            if self.command == "HEAD":
                return
            self.wfile.write(body[: len(body) // 2] if how == "truncate" else body)
            self.close_connection = self.close_connection or how == "truncate"

        do_HEAD = do_GET  # noqa: N815  # as the library names it

    return Handler


@contextlib.contextmanager
def running(port):
    """A proxy before the server at a port.

    `fail(*faults, at=part)` has the next requests whose path contains `part` fail, one for each fault: "503", "403",
    "reset", "truncate", "corrupt", or an event that the answer waits for. `asked` are the paths and ranges of requests.
    """
    lock, faults, asked = threading.Lock(), [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(port, lock, faults, asked))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()

    def fail(*hows, at=""):
        with lock:
            faults.extend((how, at) for how in hows)

    def forget():
        with lock:
            faults.clear()
            asked.clear()

    try:
        yield SimpleNamespace(
            port=server.server_address[1], fail=fail, asked=asked, forget=forget, numbers=itertools.count()
        )
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
