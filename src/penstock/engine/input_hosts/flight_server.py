"""Arrow Flight server of a chunk service."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.core import Array, optional_import
from penstock.engine.input_hosts.chunk_service import ChunkService
from penstock.engine.input_hosts.json_messages import MessageError


def flight_server(
    location: str, service: ChunkService, token: str = "", certificate: tuple[bytes, bytes] | None = None
) -> Any:
    """Start a server. Returns it; `port` is its port, and `shutdown()` ends it.

    Args:
        location: Address to listen at, such as ``grpc://127.0.0.1:7000``; port 0 lets the system choose.
        service: Answers the calls.
        token: Secret that calls must present; "" for none.
        certificate: Certificate and key in PEM, for TLS.

    Raises:
        MissingExtraError: pyarrow is not installed.
        OSError: The address is in use.
    """
    arrow: Any = optional_import.import_extra("pyarrow", "hosts", "penstock serve")
    flight: Any = optional_import.import_extra("pyarrow.flight", "hosts", "penstock serve")
    schema = arrow.schema([("bytes", arrow.uint8())])

    # The base classes belong to an optional package, so the classes cannot be defined when this module is imported.
    class TokenFactory(flight.ServerMiddlewareFactory):
        """Refuses calls without the token."""

        def start_call(self, info: Any, headers: Mapping[str, Any]) -> None:
            given = [value for name, values in headers.items() if name.lower() == "authorization" for value in values]
            texts = [value if isinstance(value, bytes) else value.encode() for value in given]
            if not any(hmac.compare_digest(text, f"Bearer {token}".encode()) for text in texts):
                raise flight.FlightUnauthenticatedError("the token is missing or wrong")

    class Server(flight.FlightServerBase):
        """Passes calls to the service."""

        def do_action(self, context: Any, action: Any) -> Iterator[Any]:
            try:
                answer = service.call(action.type, action.body.to_pybytes())
            except MessageError as error:
                raise flight.FlightServerError(f"the host received {error}") from None
            return iter([flight.Result(answer)])

        def do_get(self, context: Any, ticket: Any) -> Any:
            try:
                parts = service.chunk(ticket.ticket, context.is_cancelled)
            except MessageError as error:
                raise flight.FlightServerError(f"the host received {error}") from None
            return flight.GeneratorStream(schema, map(batch_of, parts))

    def batch_of(part: bytes | Array) -> Any:
        if isinstance(part, bytes):
            return record_batch(arrow.py_buffer(b""), 0), part
        return record_batch(arrow.py_buffer(part), len(part))

    def record_batch(buffer: Any, length: int) -> Any:
        return arrow.RecordBatch.from_arrays(
            [arrow.Array.from_buffers(arrow.uint8(), length, [None, buffer])], schema=schema
        )

    return Server(
        location,
        middleware={"token": TokenFactory()} if token else {},
        tls_certificates=[] if certificate is None else [certificate],
    )
