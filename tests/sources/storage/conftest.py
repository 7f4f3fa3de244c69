"""A real S3 server (moto, from PyPI) in a process of its own, behind a proxy that fails as it is told."""

import os
import subprocess
import sys
from datetime import timedelta
from types import SimpleNamespace

import faulty_proxy
import pytest

from penstock.sources.storage import object_store, store_client

_SERVER = """
import logging
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Repeat requests twice, almost at once."""
    backoff = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2), "base": 2}
    monkeypatch.setattr(store_client, "_RETRIES", {"max_retries": 2, "backoff": backoff})
    monkeypatch.setattr(object_store, "_BODY_PAUSES", (0.001, 0.002))
    monkeypatch.setattr(store_client, "clients", {})


@pytest.fixture(scope="session")
def server():
    """The port of the server."""
    obstore = pytest.importorskip("obstore")
    pytest.importorskip("moto")
    with subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True) as process:
        yield SimpleNamespace(port=int(process.stdout.readline()), obstore=obstore)
        process.kill()


@pytest.fixture(scope="session")
def proxy(server):
    """The proxy before it."""
    with faulty_proxy.running(server.port) as made:
        yield made


@pytest.fixture
def s3(server, proxy, monkeypatch):
    """An empty bucket, whose server the environment names: `put(key, data)`, `mark(folder)`, `url`, `proxy`."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "PENSTOCK_CACHE")):
            monkeypatch.delenv(name)
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}",
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    bucket = f"bucket{next(proxy.numbers)}"
    proxy.forget()
    faulty_proxy.request(server.port, "PUT", f"/{bucket}")
    client = server.obstore.store.S3Store(
        bucket, endpoint=f"http://127.0.0.1:{server.port}", client_options={"allow_http": True}
    )

    def put(key, data):
        server.obstore.put(client, key, data)

    def mark(folder):  # obstore would take the slash away
        faulty_proxy.request(server.port, "PUT", f"/{bucket}/{folder}", b"")

    return SimpleNamespace(
        put=put,
        mark=mark,
        delete=lambda key: server.obstore.delete(client, key),
        url=f"s3://{bucket}",
        bucket=bucket,
        proxy=proxy,
    )
