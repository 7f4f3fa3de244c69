"""Limits of the server of a host: long messages, calls without the token, and peers that keep calls open."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from input_hosts import hosts

from penstock.engine.host.worker_threads import ThreadExecutor
from penstock.engine.input_hosts import chunk_server, chunk_service
from penstock.engine.input_hosts.chunk_protocol import CHUNK, OPEN, SERVICE, STATUS, ChunkHead, ChunkRequest
from penstock.engine.input_hosts.chunk_server import ChunkServer
from penstock.engine.input_hosts.chunk_service import ChunkService
from penstock.engine.input_hosts.host_address import HostCredentials, parse_address
from penstock.engine.input_hosts.host_connection import HostConnection, HostFailureError
from penstock.engine.input_hosts.json_messages import MAX_MESSAGE_BYTES
from penstock.sources.order.schedule import BatchStep

grpc = pytest.importorskip("grpc")

TICKET = ChunkRequest("none", BatchStep(0, 0, (0,), 4), np.arange(4), ("uint8",)).encode()


class LargeAnswers(ChunkService):
    """Service whose answers are larger than the buffers of a connection."""

    def __init__(self):
        super().__init__(lambda _: None, ThreadExecutor(1, name="large-answers"))

    def compute(self, request, cancelled):
        return ChunkHead(), [np.zeros(64 << 20, np.uint8)]


@contextmanager
def serving(service, **options):
    server = ChunkServer(parse_address("127.0.0.1:0"), service, **options)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            yield channel
    finally:
        server.shutdown()


def code_of(call, *arguments, **options):
    """The status of a call that fails."""
    with pytest.raises(grpc.RpcError) as info:
        call(*arguments, timeout=60, **options)
    return info.value.code()


def peak_bytes(process):
    """The peak of the resident memory of a process."""
    return int(re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())[1]) << 10


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the proc file system")
def test_a_host_does_not_receive_messages_above_the_limit():
    with hosts(1) as (host,), grpc.insecure_channel(host.address.removeprefix("grpc://")) as channel:
        calls = [channel.unary_unary(f"/{SERVICE}/{name}") for name in (OPEN, STATUS)]
        # The largest message that is received, so that the peak includes it.
        assert code_of(calls[0], b" " * MAX_MESSAGE_BYTES) is grpc.StatusCode.INVALID_ARGUMENT
        before = peak_bytes(host.process)
        for call in [*calls, lambda *a, **o: list(channel.unary_stream(f"/{SERVICE}/{CHUNK}")(*a, **o))]:
            assert code_of(call, b" " * (MAX_MESSAGE_BYTES + 1)) is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert code_of(call, bytes(300_000_000)) is grpc.StatusCode.RESOURCE_EXHAUSTED
            # 300 KB that decompress to 300 MB
            code_of(call, bytes(300_000_000), compression=grpc.Compression.Gzip)
        assert peak_bytes(host.process) - before < 5e6
        assert calls[1](b"{}", timeout=60)
        assert host.process.poll() is None


def test_a_call_without_the_token_is_refused_before_its_message():
    with serving(LargeAnswers(), token="secret") as channel:
        ended = threading.Event()

        def no_message():
            ended.wait()
            yield b"{}"

        try:
            for name in (OPEN, STATUS, CHUNK):
                call = channel.stream_unary(f"/{SERVICE}/{name}")
                for metadata in ([], [("authorization", "Bearer wrong")], [("authorization", "Bearer secret2")]):
                    assert code_of(call, no_message(), metadata=metadata) is grpc.StatusCode.UNAUTHENTICATED
        finally:
            ended.set()
        status = channel.unary_unary(f"/{SERVICE}/{STATUS}")
        assert status(b"{}", timeout=60, metadata=[("authorization", "Bearer secret")])


def test_peers_that_keep_a_call_open_lose_it():
    service, ended = LargeAnswers(), threading.Event()
    with serving(service, call_seconds=1.0) as channel:
        slow_reader = channel.unary_stream(f"/{SERVICE}/{CHUNK}")(TICKET)
        ChunkHead.decode(next(slow_reader))

        def no_message():
            ended.wait()
            yield b"{}"

        try:
            status = code_of(channel.stream_unary(f"/{SERVICE}/{STATUS}"), no_message())
            assert status is grpc.StatusCode.CANCELLED
        finally:
            ended.set()
        # It began earlier, so the server has cancelled it, too.
        with pytest.raises(grpc.RpcError) as info:
            list(slow_reader)
        assert info.value.code() is grpc.StatusCode.CANCELLED
        while service.totals.waiting:  # its thread and its answer are free
            ended.wait(0.01)
        assert service._unread == 0
        assert channel.unary_unary(f"/{SERVICE}/{STATUS}")(b"{}", timeout=60)


def test_answers_that_are_not_read_are_bounded(monkeypatch):
    service = LargeAnswers()
    monkeypatch.setattr(chunk_service, "_MAX_UNREAD_BYTES", 100 << 20)
    answers = [service.chunk(TICKET, lambda: False) for _ in range(3)]
    assert [ChunkHead.decode(next(answer)).refusal for answer in answers] == ["", "", "the host is busy"]
    del answers
    assert ChunkHead.decode(next(service.chunk(TICKET, lambda: False))).refusal == ""


def test_metadata_and_connections_are_bounded(monkeypatch):
    options = [
        ("grpc.max_allowed_incoming_connections", 4) if "connections" in name else (name, value)
        for name, value in chunk_server._OPTIONS
    ]
    monkeypatch.setattr(chunk_server, "_OPTIONS", options)
    with serving(LargeAnswers()) as channel:
        status = channel.unary_unary(f"/{SERVICE}/{STATUS}")
        long = [("name", "x" * 100_000)]
        assert code_of(status, b"{}", metadata=long) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert status(b"{}", timeout=60)


def test_an_address_in_use():
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(OSError, match="cannot listen at"):
        ChunkServer(parse_address(f"127.0.0.1:{listener.getsockname()[1]}"), LargeAnswers())


def test_refusals_name_their_reason():
    server = ChunkServer(parse_address("127.0.0.1:0"), LargeAnswers())
    connection = HostConnection(parse_address(f"127.0.0.1:{server.port}"), HostCredentials())
    for action, body, message in (
        (OPEN, b"[]", "the host received a message of type list"),
        (OPEN, b" " * 5_000_000, "larger than max"),
        ("Other", b"{}", "Method not found"),
    ):
        with pytest.raises(HostFailureError, match=message):
            connection.call(action, body, 60)
    connection.close()
    with pytest.raises(HostFailureError, match="closed"):
        connection.call(STATUS, b"{}", 60)
    server.shutdown()
    with pytest.raises(HostFailureError, match=r"^(?!.*127.0.0.1).*Connection refused"):
        HostConnection(parse_address(f"127.0.0.1:{server.port}"), HostCredentials()).call(STATUS, b"{}", 60)
