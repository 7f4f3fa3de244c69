"""Objects over connections of our own: what counts as an answer, and that the library is asked after all others."""

import contextlib
import datetime
import ipaddress
import os
import socket
import ssl
import threading
from types import SimpleNamespace

import pytest

from penstock.sources.storage import direct_http as module
from penstock.sources.storage import object_store
from penstock.sources.storage.byte_range import ByteRange
from penstock.sources.storage.direct_http import Direct, direct_to

WHOLE = b'HTTP/1.1 200 OK\r\nETag: "t"\r\nContent-Length: 10\r\n\r\n0123456789'
PART = b'HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 2-4/10\r\nETag:"t"\r\ncontent-length:3\r\n\r\n234'


@contextlib.contextmanager
def serving(*answers, wrap=lambda connection: connection):
    """A server that gives these answers, one to each request; None closes the connection instead."""
    answers, asked, connections = list(answers), [], []
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        while answers:
            try:
                accepted = listening.accept()[0]
            except OSError:  # the test is over
                return
            with contextlib.suppress(OSError), wrap(accepted) as connection:
                connections.append(connection)
                while answers and (request := connection.recv(65536)):
                    asked.append(request)
                    answer = answers.pop(0)
                    if answer is None:
                        break
                    connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        port = listening.getsockname()[1]
        yield SimpleNamespace(origin=f"http://127.0.0.1:{port}", asked=asked, connections=connections)
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        thread.join()


def get(direct, extent, key="a"):
    return direct.get([(extent, key)])[0]


def test_an_address_that_does_not_answer_is_tried_once(monkeypatch):
    """As where IPv6 leads nowhere: each try takes seconds."""
    tried, connect, resolve = [], socket.create_connection, socket.getaddrinfo

    def connected(place, timeout):
        tried.append(place[0])
        if place[0] == "2001:db8::1":
            raise TimeoutError
        return connect(place, timeout)

    def addresses(host, *given, **options):
        answer = resolve("127.0.0.1" if host == "both.test" else host, *given, **options)
        dead = [(socket.AF_INET6, *answer[0][1:4], ("2001:db8::1", *answer[0][4][1:], 0, 0))]
        return dead + answer if host == "both.test" else answer

    closing = WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
    with serving(closing, closing, closing) as server:
        direct = Direct(server.origin.replace("127.0.0.1", "both.test"), lambda key: "/" + key)
        monkeypatch.setattr(socket, "getaddrinfo", addresses)
        monkeypatch.setattr(socket, "create_connection", connected)
        assert all(get(direct, ByteRange("")) for _ in range(3))
    assert tried == ["2001:db8::1", *["127.0.0.1"] * 3]


def test_answers_over_one_connection():
    lines = WHOLE.replace(b"0123456789", b"0\n\n3\r\n\r\n89")
    with serving(WHOLE, PART, WHOLE.replace(b"10\r\n\r\n0123456789", b"0\r\n\r\n"), lines) as server:
        direct = Direct(server.origin, lambda key: "/b/" + key)
        for extent, expected in (
            (ByteRange("", etag='"t"'), b"0123456789"),
            (ByteRange("", 2, 5), b"234"),
            (ByteRange(""), b""),
            (ByteRange(""), b"0\n\n3\r\n\r\n89"),
        ):
            data, tag = get(direct, extent)
            assert (data.tobytes(), tag) == (expected, '"t"')
        assert not data.flags.writeable
        assert len(server.connections) == 1
        assert server.asked[0].startswith(b"GET /b/a HTTP/1.1\r\nhost: 127.0.0.1:")
        assert b'\r\nif-match: "t"\r\n' in server.asked[0]
        assert b"\r\nrange: bytes=2-4\r\n" in server.asked[1]
        del direct  # and its connections with it


@pytest.mark.parametrize(
    "answer",
    [
        WHOLE.replace(b" 200 OK", b" 404 Not Found"),
        WHOLE.replace(b"/1.1", b"/1.0"),
        WHOLE.replace(b'"t"', b'"other"'),
        WHOLE.replace(b'ETag: "t"\r\n', b""),
        WHOLE.replace(b"Content-Length: 10\r\n", b"Transfer-Encoding: chunked\r\n"),
        WHOLE.replace(b": 10", b": 10\r\nTransfer-Encoding: chunked"),
        WHOLE.replace(b": 10", b": 9"),
        WHOLE.replace(b": 10", b": -10"),
        WHOLE.replace(b": 10", b": ten"),
        WHOLE.replace(b": 10", b": 1000000000000000000"),
        WHOLE.replace(b": 10", b": 1_0"),
        WHOLE.replace(b": 10", b": 10\r\nContent-Length: 9"),
        WHOLE.replace(b": 10", b": 10\r\nContent-Range: bytes 5-14/100"),
        WHOLE.replace(b" 200 ", b" 2000 "),
        WHOLE.replace(b"\r\n", b"\n"),
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 2000 + WHOLE[17:],
        PART,
        b"nonsense\r\n\r\n",
        None,
    ],
    ids=[
        "missing",
        "http-1.0",
        "other-etag",
        "no-etag",
        "chunked",
        "chunked-with-length",
        "longer",
        "negative",
        "no-number",
        "huge",
        "python-number",
        "two-lengths",
        "range-unasked",
        "long-status",
        "line-feeds",
        "long-head",
        "part",
        "nonsense",
        "closed",
    ],
)
def test_answers_after_which_the_library_is_asked(answer):
    with serving(answer, WHOLE) as server:
        direct, extent = Direct(server.origin, lambda key: "/" + key), ByteRange("", etag='"t"')
        assert get(direct, extent) is None
        assert get(direct, extent) is None  # without a question
        assert len(server.asked) == 1
        assert get(direct, extent) is not None
        assert len(server.connections) == 2


@pytest.mark.parametrize(
    "answer",
    [PART.replace(b"2-4", b"3-5"), PART.replace(b"content-range: bytes 2-4/10\r\n", b""), PART.replace(b"234", b"23")],
    ids=["other", "unsaid", "short"],
)
def test_parts_after_which_the_library_is_asked(answer):
    with serving(answer) as server:
        direct = Direct(server.origin, lambda key: "/" + key)
        assert get(direct, ByteRange("", 2, 5)) is None


def test_after_a_connection_that_the_server_closes_another_one_is_made():
    with serving(WHOLE, None, WHOLE, WHOLE.replace(b"OK", b"OK\r\nConnection: close"), WHOLE) as server:
        direct = Direct(server.origin, lambda key: "/" + key)
        answers = [get(direct, ByteRange("")) for _ in range(6)]
        # the second is asked for over a connection that then ends, and the third is left to the library
        assert [answer is not None for answer in answers] == [True, False, False, True, True, True]
        assert len(server.connections) == 3


def test_a_group_is_asked_for_before_any_of_it_is_answered():
    listening = socket.create_server(("127.0.0.1", 0))
    asked = []

    def serve():
        connections = [listening.accept()[0] for _ in range(3)]
        asked.extend(connection.recv(65536).split()[1] for connection in connections)
        for connection, body in zip(connections, (b"0123456789", b"", b"abcdefghij"), strict=True):
            connection.sendall(WHOLE.replace(b"0123456789", body))
            connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    direct = Direct(f"http://127.0.0.1:{listening.getsockname()[1]}", lambda key: "/" + key)
    answers = direct.get([(ByteRange(""), key) for key in "abc"])
    thread.join()
    listening.close()
    assert asked == [b"/a", b"/b", b"/c"]
    assert [answer and answer[0].tobytes() for answer in answers] == [b"0123456789", None, b"abcdefghij"]


def test_connections_that_are_not_in_use_are_closed():
    with serving(WHOLE, WHOLE) as server:
        direct = Direct(server.origin, lambda key: "/" + key)
        assert get(direct, ByteRange("")) is not None
        direct.close_idle()
        assert get(direct, ByteRange("")) is not None
        assert len(server.connections) == 2


def test_ever_more_objects_are_left_to_the_library():
    with serving(*[None] * 100) as server:
        direct = Direct(server.origin, lambda key: "/" + key)
        assert not any(get(direct, ByteRange("")) for _ in range(1 + 1 + 1 + 3 + 1 + 7 + 1))
        assert len(server.asked) == 4
        assert not direct.useless
        assert not any(get(direct, ByteRange("")) for _ in range(5000))
        assert len(server.asked) == 11
        assert direct.useless


def test_what_nobody_asked_for_is_no_answer():
    with serving(WHOLE, WHOLE) as server:
        direct = Direct(server.origin, lambda key: "/" + key)
        assert get(direct, ByteRange("")) is not None
        server.connections[0].sendall(WHOLE.replace(b"0123456789", b"of another"))
        assert direct._idle[0]._socket.recv(1, socket.MSG_PEEK)  # it is here
        assert get(direct, ByteRange(""))[0].tobytes() == b"0123456789"
        assert len(server.connections) == 2


def test_one_silence_is_waited_for_and_the_others_of_the_group_are_not(monkeypatch):
    monkeypatch.setattr(module, "_SILENCE", 0.1)
    waited, receive = [], module._Connection._receive

    def _receive(self, view, until, **how):
        waited.append(until)
        return receive(self, view, until, **how)

    monkeypatch.setattr(module._Connection, "_receive", _receive)
    with socket.create_server(("127.0.0.1", 0)) as listening:  # nobody answers
        direct = Direct(f"http://127.0.0.1:{listening.getsockname()[1]}", lambda key: "/" + key)
        assert direct.get([(ByteRange(""), "a")] * 3) == [None] * 3
    assert [until > 0 for until in waited] == [True, False, False]


@pytest.mark.parametrize(("key", "tag"), [("a//b", ""), ("../b", ""), (".", ""), ("a", '"t"\r\nhost: other\r\nx: "')])
def test_what_no_request_can_have(key, tag):
    direct = Direct("http://127.0.0.1:9", lambda _: "/")
    assert get(direct, ByteRange("", etag=tag), key) is None


@pytest.mark.parametrize("signed", [True, False])
def test_urls_are_those_of_the_library(signed, s3, monkeypatch):
    if not signed:
        monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    keys = ["d/a b+c%é~(1).jpg", "e"]
    for key in keys:
        s3.put(key, key.encode())
    monkeypatch.setattr(object_store, "_clients", {})
    for key in keys:
        found = object_store.head(f"{s3.url}/{key}")
        client = object_store._clients[s3.url]
        s3.proxy.forget()
        data, tag = get(client.direct, ByteRange(found.path, etag=found.etag), key)
        assert (data.tobytes(), tag) == (key.encode(), found.etag)
        assert ("X-Amz-Signature=" in s3.proxy.asked[0][1]) == signed
        s3.proxy.forget()
        assert object_store.fetch(ByteRange(found.path, 0, 1, found.etag))[0].tobytes() == key.encode()[:1]
        assert len(s3.proxy.asked) == 1


def test_where_the_library_alone_is_asked(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert direct_to(None, "http", "host", None, {}) is not None
    assert direct_to(None, "http", "user@host", None, {}) is None
    assert direct_to(None, "gs", "bucket", None, {}) is None
    assert direct_to(None, "http", "host", None, {"AWS_SSE_CUSTOMER_KEY_BASE64": "key"}) is None
    monkeypatch.setenv("http_proxy", "http://proxy:1")
    assert direct_to(None, "https", "host", None, {}) is not None
    assert direct_to(None, "http", "host", None, {}) is None
    monkeypatch.setenv("no_proxy", "host")
    assert direct_to(None, "http", "host", None, {}) is not None
    monkeypatch.delenv("http_proxy")
    monkeypatch.setenv("all_proxy", "http://proxy:1")
    assert direct_to(None, "https", "other", None, {}) is None


def test_over_tls_where_the_certificate_is_trusted(tmp_path, monkeypatch):
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "server")])
    addresses = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
    made = made.add_extension(addresses, critical=False).sign(key, hashes.SHA256())
    private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    encoded = made.public_bytes(serialization.Encoding.PEM)
    (tmp_path / "pem").write_bytes(encoded + key.private_bytes(serialization.Encoding.PEM, *private))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pem")
    large = WHOLE.replace(b": 10", b": 1000000").replace(b"0123456789", os.urandom(1) * 1_000_000)

    def wrap(connection):
        return context.wrap_socket(connection, server_side=True)

    with serving(WHOLE, large, wrap=wrap) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "pem"))
        direct = Direct(server.origin.replace("http", "https"), lambda key: "/" + key)
        assert get(direct, ByteRange(""))[0].tobytes() == b"0123456789"
        assert get(direct, ByteRange(""))[0].tobytes() == large[-1_000_000:]
        assert len(server.connections) == 1
