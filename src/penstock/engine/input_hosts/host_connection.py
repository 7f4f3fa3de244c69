"""Connection to an input host: calls with a time limit, and chunks received into batch buffers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

import numpy as np

from penstock.core import Array, Column, optional_import
from penstock.engine.input_hosts.chunk_protocol import (
    CHUNK,
    MAX_CHUNK_BYTES,
    PIECE_BYTES,
    SERVICE,
    ChunkHead,
    extended_checksum,
    ragged_column,
)
from penstock.engine.input_hosts.host_address import HostAddress, HostCredentials
from penstock.engine.input_hosts.json_messages import MAX_MESSAGE_BYTES, MessageError

_OPTIONS = [
    # The head of an answer, or a piece.
    ("grpc.max_receive_message_length", max(MAX_MESSAGE_BYTES, PIECE_BYTES)),
    # The limit is for the compressed length. Hosts do not compress.
    ("grpc.per_message_decompression", 0),
    # With a shared pool, a new connection to a host that restarted would inherit the waiting time of the old one.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
]

_ADDRESSES = re.compile(r"^(?:.*; last error: )?(?:[A-Z_]+: )?(?:ipv[46]:\S+: )?")


class HostFailureError(Exception):
    """Failure of an input host or of the connection: the chunk can be computed elsewhere."""


class HostTimeoutError(HostFailureError):
    """Answer that did not arrive in time."""


class ChecksumError(HostFailureError):
    """Bytes that differ from those that the host computed."""


def load_grpc() -> Any:
    """Return the module `grpc`.

    Raises:
        MissingExtraError: It is not installed.
    """
    return optional_import.import_extra("grpc", "hosts", "input_hosts")


class HostConnection:
    """Connection to an input host. Thread-safe.

    Args:
        address: The host, by its IP address.
        credentials: Token and certificates.
    """

    def __init__(self, address: HostAddress, credentials: HostCredentials) -> None:
        self._grpc = load_grpc()
        self._metadata = [("authorization", f"Bearer {credentials.token}")] if credentials.token else []
        # With the family in front, gRPC does not look the address up.
        target = f"{'ipv6' if ':' in address.host else 'ipv4'}:{address.location}"
        if address.tls:
            # The certificate is for the name, not for the addresses that it leads to at the moment.
            names = [("grpc.ssl_target_name_override", address.name)] if address.name else []
            secured = self._grpc.ssl_channel_credentials(credentials.roots)
            self._channel = self._grpc.secure_channel(target, secured, [*_OPTIONS, *names])
        else:
            self._channel = self._grpc.insecure_channel(target, _OPTIONS)
        self._chunk = self._channel.unary_stream(f"/{SERVICE}/{CHUNK}")

    def call(self, action: str, body: bytes, seconds: float) -> bytes:
        """Call an action and return its result.

        Raises:
            HostFailureError: The host does not answer in time, or refuses the call.
        """
        with _translated(self._grpc):
            return self._channel.unary_unary(f"/{SERVICE}/{action}")(body, seconds, self._metadata)

    def fetch(
        self, ticket: bytes, slots: Sequence[Array | None], dtypes: Sequence[Any], seconds: float
    ) -> tuple[ChunkHead, list[Column], int]:
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
        with _translated(self._grpc):
            call = self._chunk(ticket, max(seconds, 0.05), self._metadata)
            try:
                return _receive(call, slots, dtypes)
            except BaseException:
                call.cancel()
                raise

    def close(self) -> None:
        """Cancel all requests and close the connection."""
        with suppress(Exception):
            self._channel.close()


class _translated:  # noqa: N801  # used like a function
    """Context that raises errors of gRPC and violations of the protocol as `HostFailureError`."""

    def __init__(self, grpc: Any) -> None:
        self._grpc = grpc

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        if isinstance(error, MessageError):
            raise HostFailureError(f"it sent {error}") from None
        if isinstance(error, self._grpc.RpcError):
            if cast(Any, error).code() is self._grpc.StatusCode.DEADLINE_EXCEEDED:
                raise HostTimeoutError("it did not answer in time") from None
            raise HostFailureError(_message(error)) from None
        # gRPC raises ValueError for a call of a channel that another thread has closed.
        if isinstance(error, Exception) and not isinstance(error, HostFailureError):
            raise HostFailureError(str(error)) from None


def _message(error: Any) -> str:
    """Return the message of an error of gRPC without the addresses that gRPC puts before it: the caller names them."""
    text = error.details() or error.code().name.lower().replace("_", " ")
    return _ADDRESSES.sub("", text, count=1).partition("\n")[0][:500]


def _receive(
    messages: Iterator[bytes], slots: Sequence[Array | None], dtypes: Sequence[Any]
) -> tuple[ChunkHead, list[Column], int]:
    """Receive the answer to a request into the slots."""
    first = next(messages, None)
    if first is None:
        raise MessageError("an answer without a head")
    head = ChunkHead.decode(first)
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
            piece = _piece(messages)
            if position + len(piece) > len(target):
                raise MessageError("more bytes than its columns have")
            target[position : position + len(piece)] = piece
            checksum = extended_checksum(checksum, piece)
            position += len(piece)
        received += position
    if next(messages, None) is not None:
        raise MessageError("more pieces than its columns have")
    if checksum != head.checksum:
        raise ChecksumError(f"it sent data with the checksum {checksum:08x}; it computed {head.checksum:08x}")
    columns: list[Column] = [
        slot if slot is not None else _column(target, shape, np.dtype(dtype))
        for slot, target, shape, dtype in zip(slots, targets, head.shapes, dtypes, strict=True)
    ]
    return head, columns, received


def _piece(messages: Iterator[bytes]) -> Array:
    piece = next(messages, None)
    if piece is None:
        raise MessageError("fewer bytes than its columns have")
    if not 0 < len(piece) <= PIECE_BYTES:
        raise MessageError(f"a piece of {len(piece)} bytes")
    return np.frombuffer(piece, np.uint8)


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
