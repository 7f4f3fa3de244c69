"""gRPC server of a chunk service, which bounds what a peer can make it hold."""

from __future__ import annotations

import hmac
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from penstock.core import optional_import
from penstock.engine.input_hosts.chunk_protocol import CHUNK, OPEN, SERVICE, STATUS
from penstock.engine.input_hosts.chunk_service import ChunkService
from penstock.engine.input_hosts.host_address import HostAddress
from penstock.engine.input_hosts.json_messages import MAX_MESSAGE_BYTES, MessageError

# Connections that a server keeps: below the usual limit of 1,024 open files, which data files need, too.
_MAX_CONNECTIONS = 512

_OPTIONS = [
    # gRPC refuses a longer message when its length arrives, and does not receive the rest.
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # The limit is for the compressed length: a message of 4 MiB can decompress to 4 GiB. Trainers do not compress.
    ("grpc.per_message_decompression", 0),
    # Otherwise, the window of a connection grows to many megabytes, and a peer can fill it before it is refused.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.max_metadata_size", 8 << 10),
    ("grpc.absolute_max_metadata_size", 16 << 10),
    ("grpc.max_allowed_incoming_connections", _MAX_CONNECTIONS),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 600_000),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Otherwise, a second server could share the port and answer a part of the connections.
    ("grpc.so_reuseport", 0),
]

# Calls beside the requests for chunks that the service admits: they answer at once, or within a second.
_SHORT_CALLS = 32

# Seconds of a call. A trainer gives up earlier, so only a peer that does not send its request or does not read the
# answer reaches this limit.
CALL_SECONDS = 15.0


class ChunkServer:
    """Server of a chunk service, which runs until `shutdown`.

    Args:
        address: Address to listen at; port 0 lets the system choose.
        service: Answers the calls.
        token: Secret that calls must present; "" for none.
        certificate: Certificate and key in PEM, for TLS.
        call_seconds: Time limit of a call.

    Attributes:
        port: The port.

    Raises:
        MissingExtraError: grpcio is not installed.
        OSError: The address cannot be listened at, or the certificate or its key is wrong.
    """

    def __init__(
        self,
        address: HostAddress,
        service: ChunkService,
        token: str = "",
        certificate: tuple[bytes, bytes] | None = None,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        self._grpc: Any = optional_import.import_extra("grpc", "hosts", "penstock serve")
        self._service, self._authorization = service, f"Bearer {token}".encode() if token else b""
        self._deadlines = _Deadlines(call_seconds)
        calls = service.max_requests + _SHORT_CALLS
        # The handlers read the request themselves, as if it were a stream, so that they run before it is received.
        handlers = {
            name: self._grpc.stream_unary_rpc_method_handler(partial(self._call, name)) for name in (OPEN, STATUS)
        }
        handlers[CHUNK] = self._grpc.stream_stream_rpc_method_handler(self._chunk)
        self._server = self._grpc.server(
            ThreadPoolExecutor(calls, thread_name_prefix="penstock-call"),
            handlers=[self._grpc.method_handlers_generic_handler(SERVICE, handlers)],
            options=[*_OPTIONS, ("grpc.max_concurrent_streams", calls)],
            maximum_concurrent_rpcs=calls,
        )
        try:
            self.port: int = self._listen(address.location, certificate)
        except RuntimeError as error:
            raise OSError(f"cannot listen at {address}: {error}") from None
        self._deadlines.start()
        self._server.start()

    def shutdown(self) -> None:
        """End the server, and cancel calls."""
        self._deadlines.end()
        self._server.stop(0).wait()

    def _listen(self, location: str, certificate: tuple[bytes, bytes] | None) -> int:
        if certificate is None:
            return self._server.add_insecure_port(location)
        chain, key = certificate
        return self._server.add_secure_port(location, self._grpc.ssl_server_credentials([(key, chain)]))

    def _call(self, action: str, messages: Iterator[bytes], context: Any) -> bytes:
        with self._deadlines.limited(context), self._refusals(context):
            return self._service.call(action, self._message(messages, context))

    def _chunk(self, messages: Iterator[bytes], context: Any) -> Iterator[bytes]:
        with self._deadlines.limited(context):
            with self._refusals(context):
                parts = self._service.chunk(self._message(messages, context), lambda: not context.is_active())
            for part in parts:
                yield part if isinstance(part, bytes) else part.tobytes()

    def _message(self, messages: Iterator[bytes], context: Any) -> bytes:
        """Receive the message of a call, if the call presents the token."""
        if self._authorization:
            values = [value for name, value in context.invocation_metadata() if name == "authorization"]
            if not any(hmac.compare_digest(value.encode(), self._authorization) for value in values):
                context.abort(self._grpc.StatusCode.UNAUTHENTICATED, "the token is missing or wrong")
        message = next(messages, None)
        if message is None:
            raise MessageError("no message, or one that is too long")
        return message

    @contextmanager
    def _refusals(self, context: Any) -> Iterator[None]:
        """Answer a violation of the protocol with its reason."""
        try:
            yield
        except MessageError as error:
            context.abort(self._grpc.StatusCode.INVALID_ARGUMENT, f"the host received {error}")


class _Deadlines:
    """Time limit of calls. gRPC has none on the side of the server.

    Args:
        seconds: The limit.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._ends = seconds, dict[Any, float]()
        self._lock, self._ended = threading.Lock(), threading.Event()

    def start(self) -> None:
        """Start the thread that cancels calls."""
        threading.Thread(target=self._run, name="penstock-deadlines", daemon=True).start()

    @contextmanager
    def limited(self, context: Any) -> Iterator[None]:
        """Cancel a call if the block takes too long."""
        with self._lock:
            self._ends[context] = time.monotonic() + self._seconds
        try:
            yield
        finally:
            with self._lock:
                self._ends.pop(context)

    def end(self) -> None:
        """End the thread."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds / 10):
            now = time.monotonic()
            with self._lock:
                late = [context for context, end in self._ends.items() if end <= now]
            for context in late:
                context.cancel()
