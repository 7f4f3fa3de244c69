"""Connection to an input host: calls with a time limit, and chunks received into batch buffers."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from penstock.core import Array, Column, optional_import
from penstock.engine.input_hosts.chunk_protocol import MAX_CHUNK_BYTES, ChunkHead, extended_checksum, ragged_column
from penstock.engine.input_hosts.host_address import HostAddress, HostCredentials
from penstock.engine.input_hosts.json_messages import MAX_MESSAGE_BYTES, MessageError

# Bytes of a piece of a column. Pieces of 256 KiB cost a third more CPU time per image than those of 4 MiB, and larger
# ones do not stay in the cache between the socket and the batch buffer.
PIECE_BYTES = 4 << 20

# Room for the head of an answer, or for a piece and its framing.
_MAX_RECEIVED_BYTES = max(MAX_MESSAGE_BYTES, PIECE_BYTES) + (1 << 16)

_OPTIONS = [
    ("grpc.max_receive_message_length", _MAX_RECEIVED_BYTES),
    # With a shared pool, a new connection to a host that restarted would inherit the waiting time of the old one.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
]


class HostFailureError(Exception):
    """Failure of an input host or of the connection: the chunk can be computed elsewhere."""


class HostTimeoutError(HostFailureError):
    """Answer that did not arrive in time."""


class ChecksumError(HostFailureError):
    """Bytes that differ from those that the host computed."""


def load_flight() -> Any:
    """Return the module `pyarrow.flight`.

    Raises:
        MissingExtraError: It is not installed.
    """
    return optional_import.import_extra("pyarrow.flight", "hosts", "input_hosts")


class HostConnection:
    """Connection to an input host. Thread-safe.

    Args:
        address: The host.
        credentials: Token and certificates.
    """

    def __init__(self, address: HostAddress, credentials: HostCredentials) -> None:
        self._flight = load_flight()
        self.address = address
        self._headers = [(b"authorization", f"Bearer {credentials.token}".encode())] if credentials.token else []
        options: dict[str, Any] = {"generic_options": _OPTIONS}
        if address.tls and credentials.roots is not None:
            options["tls_root_certs"] = credentials.roots
        self._client = self._flight.FlightClient(str(address), **options)
        self._lock = threading.Lock()
        self._readers: set[Any] = set()
        self.closed = False

    def call(self, action: str, body: bytes, seconds: float) -> bytes:
        """Call an action and return its result.

        Raises:
            HostFailureError: The host does not answer in time, or refuses the call.
        """
        with _translated(self._flight, self.address):
            results = list(self._client.do_action(self._flight.Action(action, body), self._call_options(seconds)))
            return results[0].body.to_pybytes() if results else b"{}"

    def fetch(self, ticket: bytes, slots: Sequence[Array | None], dtypes: Sequence[Any], seconds: float) -> Any:
        """Request a chunk and receive its columns.

        Args:
            ticket: The request.
            slots: Per column the array to write to; None for a ragged column.
            dtypes: Per column its dtype.
            seconds: Time limit.

        Returns:
            The head of the answer, the columns, and the number of bytes received. No columns if the host refused.

        Raises:
            HostFailureError: The answer does not arrive in time, or violates the protocol.
        """
        with _translated(self._flight, self.address):
            reader = self._client.do_get(self._flight.Ticket(ticket), self._call_options(seconds))
            with self._lock:
                self._readers.add(reader)
                if self.closed:
                    reader.cancel()
            try:
                return _receive(reader, slots, dtypes)
            except BaseException:
                # Nothing may arrive in the slots after this call: the chunk is computed elsewhere into the same ones.
                reader.cancel()
                raise
            finally:
                with self._lock:
                    self._readers.discard(reader)

    def abandon(self) -> None:
        """Cancel all requests. The connection cannot be used again."""
        with self._lock:
            self.closed = True
            readers = list(self._readers)
        for reader in readers:
            with suppress(Exception):
                reader.cancel()

    def close(self) -> None:
        """Cancel all requests and close the connection."""
        self.abandon()
        with suppress(Exception):
            self._client.close()

    def _call_options(self, seconds: float) -> Any:
        return self._flight.FlightCallOptions(timeout=max(seconds, 0.05), headers=self._headers)


class _translated:  # noqa: N801  # used like a function
    """Context that raises errors of Flight and violations of the protocol as `HostFailureError`."""

    def __init__(self, flight: Any, address: HostAddress) -> None:
        self._flight, self._address = flight, address

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        if isinstance(error, self._flight.FlightTimedOutError):
            raise HostTimeoutError("it did not answer in time") from None
        if isinstance(error, MessageError):
            raise HostFailureError(f"it sent {error}") from None
        # pyarrow raises ArrowException and its subclasses, and OSError for broken connections.
        if isinstance(error, Exception) and not isinstance(error, HostFailureError):
            raise HostFailureError(_message(error)) from None


def _message(error: Exception) -> str:
    """Return the message of an error of Flight without the frame that Arrow and gRPC put around it."""
    text = str(error).strip() or type(error).__name__
    text = text.partition(", with message: ")[2] or text
    for end in (". gRPC client debug context", ". Client context", ". Detail:", "\n"):
        text = text.partition(end)[0]
    return text[:500]


def _receive(reader: Any, slots: Sequence[Array | None], dtypes: Sequence[Any]) -> tuple[ChunkHead, list[Column], int]:
    """Receive the answer to a request into the slots."""
    first = reader.read_chunk()
    if first.app_metadata is None:
        raise MessageError("an answer without a head")
    head = ChunkHead.decode(first.app_metadata.to_pybytes())
    if head.refusal:
        return head, [], 0
    if len(head.shapes) != len(slots) or len(head.dtypes) != len(slots):
        raise MessageError(f"{len(head.shapes)} columns; {len(slots)} are expected")
    targets = [
        _target(slot, shape, name, np.dtype(dtype))
        for slot, shape, name, dtype in zip(slots, head.shapes, head.dtypes, dtypes, strict=True)
    ]
    checksum = received = 0
    for target in targets:
        position = 0
        while position < len(target):
            piece = _piece(reader)
            if position + len(piece) > len(target):
                raise MessageError("more bytes than its columns have")
            target[position : position + len(piece)] = piece
            checksum = extended_checksum(checksum, piece)
            position += len(piece)
        received += position
    with suppress(StopIteration):
        reader.read_chunk()
        raise MessageError("more pieces than its columns have")
    if checksum != head.checksum:
        raise ChecksumError(f"it sent data with the checksum {checksum:08x}; it computed {head.checksum:08x}")
    columns: list[Column] = [
        slot if slot is not None else _column(target, shape, np.dtype(dtype))
        for slot, target, shape, dtype in zip(slots, targets, head.shapes, dtypes, strict=True)
    ]
    return head, columns, received


def _piece(reader: Any) -> Array:
    try:
        piece = reader.read_chunk().data
    except StopIteration:
        raise MessageError("fewer bytes than its columns have") from None
    if piece is None or piece.num_columns != 1 or not 0 < piece.num_rows <= PIECE_BYTES:
        raise MessageError("a piece of another size or type")
    column = piece.column(0)
    if column.null_count or column.type.bit_width != 8:
        raise MessageError("a piece that is not bytes")
    return np.frombuffer(column.buffers()[1], np.uint8, piece.num_rows, column.offset)


def _target(slot: Array | None, shape: tuple[Any, ...], name: str, dtype: np.dtype[Any]) -> Array:
    """Return the bytes to receive a column in."""
    # An empty ragged column has no sample that tells the dtype.
    if name != dtype.name and shape:
        raise MessageError(f"a column of {name}; {dtype.name} is expected")
    if slot is not None:
        if shape != slot.shape:
            raise MessageError(f"a column of the shape {str(shape)[:200]}; {slot.shape} is expected")
        return slot.reshape(-1).view(np.uint8)
    sizes = [math.prod(sample) for sample in shape] if _is_ragged(shape) else [math.prod(shape)]
    size = sum(sizes) * dtype.itemsize
    if size > MAX_CHUNK_BYTES:
        raise MessageError(f"a column of {size} bytes; at most {MAX_CHUNK_BYTES} are received")
    return np.empty(size, np.uint8)


def _column(data: Array, shape: tuple[Any, ...], dtype: np.dtype[Any]) -> Column:
    return ragged_column(data, shape, dtype) if _is_ragged(shape) else data.view(dtype).reshape(shape)


def _is_ragged(shape: tuple[Any, ...]) -> bool:
    return all(isinstance(item, tuple) for item in shape)
