"""Clients of object stores, and the paths that name their objects.

To support another store, add an entry to `SCHEMES`; no other module names schemes.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
import threading
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote

from penstock.core import optional_import
from penstock.errors import SourceError
from penstock.sources.storage.store_errors import os_error, summary


class Scheme(NamedTuple):
    """One kind of object store.

    Args:
        client: Name of the client class in `obstore.store`.
        location: The class's first argument, with "{}" for the bucket or host.
        lists: True if the store can list the objects under a prefix.
        environment: Prefix of the environment variables from which obstore configures the client; "" for none.
        credentials: Variables to name in an error about missing or refused credentials.
    """

    client: str
    location: str = "{}"
    lists: bool = True
    environment: str = ""
    credentials: str = ""


SCHEMES = {
    "s3": Scheme(
        "S3Store",
        environment="AWS_",
        credentials="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; AWS_SKIP_SIGNATURE=true reads a public bucket",
    ),
    "gs": Scheme(
        "GCSStore",
        environment="GOOGLE_",
        credentials="GOOGLE_APPLICATION_CREDENTIALS; GOOGLE_SKIP_SIGNATURE=true reads a public bucket",
    ),
    "az": Scheme(
        "AzureStore",
        environment="AZURE_",
        credentials="AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    ),
    "http": Scheme("HTTPStore", "http://{}", lists=False),
    "https": Scheme("HTTPStore", "https://{}", lists=False),
}

# `timeout` covers a whole response, which may be a large file; `read_timeout` ends one whose server has gone silent.
_CLIENT_OPTIONS = {"timeout": "600s", "read_timeout": "30s"}

# The expected sum of the pauses is about 40 s: a store that restarts or limits its rate must not end a run. obstore's
# own pauses add up to 1 to 3 s.
_RETRIES: dict[str, Any] = {
    "max_retries": 10,
    "backoff": {"init_backoff": timedelta(milliseconds=200), "max_backoff": timedelta(seconds=15), "base": 3},
    "retry_timeout": timedelta(seconds=180),
}

# Some servers compress on the fly, which would change bytes, sizes and ranges. A server that ignores this is refused.
_PLAIN = {"Accept-Encoding": "identity"}


class ObjectURL(NamedTuple):
    """A parsed path: its scheme, the scheme's name, the bucket or host, and the key."""

    scheme: Scheme
    name: str
    bucket: str
    key: str

    @property
    def root(self) -> str:
        """The URL of the bucket or host."""
        return f"{self.name}://{self.bucket}"

    def os_error(self, error: Exception) -> OSError:
        """Convert an error of obstore to the OSError that a local file would raise."""
        return os_error(error, self.bucket, self.scheme.credentials)


def parse_url(path: str) -> ObjectURL:
    """Parse the path of an object or of a prefix.

    Raises:
        OSError: It is not such a path, or the store could not have such a key.
    """
    name, separator, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    if name not in SCHEMES or not separator or not bucket:
        lost_slash = path.partition(":/")[0] in SCHEMES and not separator
        fix = "; give the path as a str: pathlib takes one of its slashes away" if lost_slash else ""
        raise OSError(errno.EINVAL, f"it is not the path of an object, such as s3://bucket/key{fix}")
    # The client would quote the query as part of the key.
    if name.startswith("http") and re.search(r"[?#]", key):
        raise OSError(errno.EINVAL, "a path with a query, such as a signed one, cannot be read")
    # The client quotes the key, so the quotes of a URL would be quoted again.
    key = unquote(key) if name.startswith("http") else key
    key = key.lstrip("/")
    # Lists name files relative to a folder, as in "./1.jpg" and "../cat/1.jpg"; keys have no such parts.
    if not {".", ".."}.isdisjoint(key.split("/")):
        key = posixpath.normpath(key)
    # obstore could not even name such a key.
    if "//" in key.rstrip("/"):
        fix = "take the second slash out, or rename the object if its key has it"
        raise OSError(errno.EINVAL, f"the key {key!r} has an empty part between two slashes; {fix}")
    return ObjectURL(SCHEMES[name], name, bucket, key)


class Client(NamedTuple):
    """obstore, and its client of a bucket or host."""

    api: Any
    store: Any


# Clients by root URL, and the environment with which each was made.
clients: dict[str, Client] = {}
_environments: dict[str, dict[str, str]] = {}
_lock = threading.Lock()


def refreshed_client(url: ObjectURL) -> Client:
    """Return the client of a bucket, a new one if the environment has other credentials or endpoints than before."""
    prefix = url.scheme.environment
    environment = {name: value for name, value in os.environ.items() if prefix and name.startswith(prefix)}
    with _lock:
        if url.root not in clients or _environments[url.root] != environment:
            clients[url.root] = _make_client(url, environment)
            _environments[url.root] = environment
        return clients[url.root]


def _make_client(url: ObjectURL, environment: dict[str, str]) -> Client:
    api = _obstore()
    # obstore refuses http:// unless allowed; an endpoint in the environment, such as a local server, allows it.
    plain = url.name == "http" or any(value.startswith("http://") for value in environment.values())
    client: dict[str, Any] = {"allow_http": plain, **_CLIENT_OPTIONS}
    if not url.scheme.lists:  # a web server
        client["default_headers"] = _PLAIN
    options = {"client_options": client, "retry_config": _RETRIES}
    try:
        return Client(api, getattr(api.store, url.scheme.client)(url.scheme.location.format(url.bucket), **options))
    except Exception as error:
        raise OSError(errno.EACCES, f"the store cannot be opened: {summary(error)}") from error


def _forget_clients() -> None:
    clients.clear()
    _lock.release()


# A forked child has to make its own clients, which `_obstore` refuses.
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_forget_clients)

# ID of the process that has used obstore, or of its parent if that has.
_first_user: dict[str, int] = {}


def _obstore() -> Any:
    """Import obstore.

    Raises:
        MissingExtraError: It is not installed.
        SourceError: A parent process has used it before it forked.
    """
    # obstore's first request starts threads, which a forked child lacks: it would wait for them forever.
    if _first_user.setdefault("process", os.getpid()) != os.getpid():
        raise SourceError(
            "this process was forked from one that had read an object store, and cannot read one",
            fix='multiprocessing.get_context("spawn") or "forkserver", or open the store in the children only',
        )
    optional_import.import_extra("obstore.store", "stores", "a path of an object store")
    return optional_import.import_extra("obstore", "stores", "a path of an object store")
