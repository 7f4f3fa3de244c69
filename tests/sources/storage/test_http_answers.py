"""Answers of HTTP servers: the ones that count, and the errors for all others."""

import contextlib
import datetime
import ipaddress
import os
import signal
import socket
import ssl
import threading
from types import SimpleNamespace

import pytest

from penstock.sources.storage import object_store, store_client, store_requests
from penstock.sources.storage.byte_range import ByteRange

pytest.importorskip("obstore")

WHOLE = b'HTTP/1.1 200 OK\r\nETag: "t"\r\nContent-Length: 10\r\n\r\n0123456789'
PART = b'HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 2-4/10\r\nETag:"t"\r\ncontent-length:3\r\n\r\n234'
CLOSING = b"OK\r\nConnection: close"


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch):
    """Give up on silent servers early, and use no proxies."""
    monkeypatch.setattr(store_client, "_CLIENT_OPTIONS", {"timeout": "60s", "read_timeout": "30s"})
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@contextlib.contextmanager
def serving(answer, context=None):
    """Serve one answer to every request, over TLS with a context.

    A function returns the answer when it is due. None is silence.
    """
    requests, over = [], threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def respond(accepted):
        with contextlib.suppress(OSError):
            wrapped = context.wrap_socket(accepted, server_side=True) if context else accepted
            with wrapped as connection:
                while request := connection.recv(65536):
                    requests.append(request)
                    due = answer() if callable(answer) else answer
                    if due is None:
                        over.wait()
                        return
                    connection.sendall(due)
                    if CLOSING in due:
                        return

    def serve():
        with contextlib.suppress(OSError):  # the test is over
            while True:
                threading.Thread(target=respond, args=(listening.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield SimpleNamespace(origin=f"http://127.0.0.1:{listening.getsockname()[1]}", requests=requests)
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def fetch(server, start=0, stop=None, etag='"t"'):
    data, tag = object_store.fetch(ByteRange(f"{server.origin}/a", start, stop, etag))
    assert tag == '"t"'
    assert not data.flags.writeable or not len(data)
    return data.tobytes()


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (WHOLE, b"0123456789"),
        (WHOLE.replace(b"10\r\n\r\n0123456789", b"0\r\n\r\n"), b""),
        (WHOLE.replace(b"0123456789", b"0\n\n3\r\n\r\n89"), b"0\n\n3\r\n\r\n89"),
        (WHOLE.replace(b"OK", CLOSING), b"0123456789"),
    ],
    ids=["whole", "empty", "line feeds", "closing"],
)
def test_whole_objects(answer, content):
    with serving(answer) as server:
        assert [fetch(server) for _ in range(3)] == [content] * 3
        assert b'\r\nif-match: "t"\r\n' in server.requests[0].lower()
        assert len(server.requests) == 3


@pytest.mark.parametrize("tag", [b'ETag: "t"\r\n', b'ETag: W/"t"\r\n', b""], ids=["strong", "weak", "none"])
@pytest.mark.parametrize("stop", [None, 5])
def test_a_connection_that_breaks(tag, stop):
    whole = (WHOLE if stop is None else PART).replace(b'ETag: "t"\r\n', tag).replace(b'ETag:"t"\r\n', tag)
    broken = whole[:-2].replace(b"OK", CLOSING).replace(b"Partial Content", CLOSING)
    answers = [broken, broken, whole]
    with serving(lambda: answers.pop(0)) as server:
        data, _ = object_store.fetch(ByteRange(f"{server.origin}/a", 2 if stop else 0, stop))
    assert data.tobytes() == (b"234" if stop else b"0123456789")


def test_a_range():
    with serving(PART) as server:
        assert fetch(server, 2, 5) == b"234"
        assert b"\r\nrange: bytes=2-4\r\n" in server.requests[0].lower()


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (WHOLE.replace(b" 200 OK", b" 404 Not Found"), FileNotFoundError, "there is no such object"),
        (WHOLE.replace(b'"t"', b'"other"'), OSError, "has been written to"),
        (WHOLE.replace(b'ETag: "t"\r\n', b""), OSError, "has been written to"),
        (WHOLE.replace(b"Content-Length: 10\r\n", b"Transfer-Encoding: chunked\r\n"), OSError, "Content-Length"),
        (WHOLE.replace(b": 10", b": 12").replace(b"OK", CLOSING), OSError, "broke before the end"),
        (WHOLE.replace(b": 10", b": -10"), OSError, "does not give it"),
        (WHOLE.replace(b": 10", b": ten"), OSError, "does not give it"),
        (WHOLE.replace(b": 10", b": 1000000000000000000").replace(b"OK", CLOSING), OSError, "broke before the end"),
        (WHOLE.replace(b": 10", b": 10\r\nContent-Length: 9"), OSError, "does not give it"),
        (b"nonsense\r\n\r\n", OSError, "does not give it"),
    ],
    ids=["missing", "other-etag", "no-etag", "chunked", "cut", "negative", "text", "huge", "two-lengths", "nonsense"],
)
def test_bad_answers_are_errors(answer, kind, message):
    with serving(answer) as server, pytest.raises(kind, match=message):
        fetch(server)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (PART.replace(b"2-4", b"3-5"), "Requested 2..5, got 3..6"),
        (PART.replace(b"content-range: bytes 2-4/10\r\n", b""), "Content-Range"),
        (PART.replace(b"234", b"23").replace(b"Partial Content", CLOSING), "does not give it"),
        (WHOLE, "whole files only"),
    ],
    ids=["other", "no-range", "short", "whole"],
)
def test_bad_ranges_are_errors(answer, message):
    with serving(answer) as server, pytest.raises(OSError, match=message):
        fetch(server, 2, 5)


@pytest.mark.parametrize("encoding", ["gzip", "aws-chunked,gzip", "gzip, identity", "GZip;q=1", "br"])
def test_compressed_answers_are_errors_except_for_compressed_files(encoding):
    with serving(WHOLE.replace(b"OK", b"OK\r\nContent-Encoding: " + encoding.encode())) as server:
        with pytest.raises(OSError, match=rf"delivered compressed \(Content-Encoding: {encoding}\); store it without"):
            fetch(server)
        assert b"\r\naccept-encoding: identity\r\n" in server.requests[0].lower()
        data, _ = object_store.fetch(ByteRange(f"{server.origin}/a.gz"))
        assert data.tobytes() == b"0123456789"


@pytest.mark.parametrize("encoding", ["identity", "aws-chunked", "aws-chunked, identity", ""])
def test_encodings_that_leave_the_bytes_as_they_are(encoding):
    with serving(WHOLE.replace(b"OK", b"OK\r\nContent-Encoding: " + encoding.encode())) as server:
        assert fetch(server) == b"0123456789"


@pytest.mark.parametrize("count", [1, 2])
def test_a_slow_answer_is_reported(told, count):
    with serving(lambda: told.event.wait(30) and WHOLE) as server:
        paths = [f"{server.origin}/{number}" for number in range(count)]
        results = store_requests.map_concurrently(lambda path: object_store.fetch(ByteRange(path)), paths)
    assert [data.tobytes() for data, _ in results] == [b"0123456789"] * count
    others = f" and {count - 1} others" if count > 1 else ""
    assert told.messages == [f"waiting for 10 s for the answer of a server that is silent or slow: {paths[0]}{others}"]


@pytest.fixture
def interruptible():
    """Take interrupts also in tests that a shell has started in the background, which ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("count", [1, 2])
def test_an_interrupt_does_not_wait_for_a_server(count, interruptible):
    once = threading.Lock()

    def interrupt():
        if once.acquire(blocking=False):  # a request may be repeated
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with serving(interrupt) as server, pytest.raises(KeyboardInterrupt):
        store_requests.map_concurrently(
            lambda path: object_store.fetch(ByteRange(path)), [f"{server.origin}/{number}" for number in range(count)]
        )


def test_a_silent_server_is_an_error(monkeypatch):
    monkeypatch.setitem(store_client._CLIENT_OPTIONS, "read_timeout", "20ms")
    with serving(None) as server, pytest.raises(OSError, match="does not give it"):
        fetch(server)
    assert len(server.requests) == 3  # with two retries


def test_a_proxy_of_the_environment(monkeypatch):
    with serving(WHOLE) as proxy:
        monkeypatch.setenv("http_proxy", proxy.origin)
        data, _ = object_store.fetch(ByteRange("http://elsewhere.test/x y/ä+%41%.jpg"))
    assert data.tobytes() == b"0123456789"
    assert proxy.requests[0].startswith(b"GET http://elsewhere.test/x%20y/%C3%A4+A%25.jpg HTTP/1.1\r\n")


@pytest.mark.parametrize("key", ["a b/ä.jpg", "a%20b/%C3%A4.jpg"])
def test_urls_may_be_percent_encoded(key):
    with serving(WHOLE) as server:
        object_store.fetch(ByteRange(f"{server.origin}/{key}"))
        assert server.requests[0].startswith(b"GET /a%20b/%C3%A4.jpg ")


@pytest.mark.parametrize(("key", "message"), [("a//b", "an empty part"), ("../b", "parse path"), (".", "parse path")])
def test_keys_that_no_request_can_have(key, message):
    with pytest.raises(OSError, match=message):
        object_store.fetch(ByteRange(f"http://127.0.0.1:9/{key}"))


@pytest.mark.parametrize("signed", [True, False])
def test_keys_of_special_characters(signed, s3, monkeypatch):
    if not signed:
        monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    for key in ["d/a b+c%é~(1).jpg", "e"]:
        s3.put(key, key.encode())
        info = object_store.head(f"{s3.url}/{key}")
        data, tag = object_store.fetch(ByteRange(info.path, etag=info.etag))
        assert (data.tobytes(), tag) == (key.encode(), info.etag)
        assert object_store.fetch(ByteRange(info.path, 0, 1, info.etag))[0].tobytes() == key.encode()[:1]


def test_tls_with_a_trusted_certificate(tmp_path, monkeypatch):
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "server")])
    addresses = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
    certificate = builder.add_extension(addresses, critical=False).sign(key, hashes.SHA256())
    private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    encoded = certificate.public_bytes(serialization.Encoding.PEM)
    (tmp_path / "pem").write_bytes(encoded + key.private_bytes(serialization.Encoding.PEM, *private))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pem")
    large = WHOLE.replace(b": 10", b": 1000000").replace(b"0123456789", os.urandom(1) * 1_000_000)
    with serving(large, context) as server:
        server.origin = server.origin.replace("http", "https")
        with pytest.raises(OSError, match="does not give it"):
            fetch(server)
        store_client.clients.clear()
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "pem"))
        assert fetch(server) == large[-1_000_000:]
