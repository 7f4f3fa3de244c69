"""Access to object stores by paths such as ``s3://bucket/key``: sizes, bytes and listings.

obstore (the extra `stores`) sends the requests: it takes credentials, regions and endpoints from the environment and
retries failed requests. Every failure is an OSError with a readable message, as for local files. To support another
store, add an entry to `SCHEMES`; no other module knows schemes.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from penstock.core import Array, optional_import
from penstock.errors import ResourceError, SourceError, SourceNotFoundError
from penstock.sources.storage.byte_range import ByteRange, ObjectInfo, size_tag
from penstock.sources.storage.sample_limit import check_sample_size
from penstock.sources.storage.store_errors import CHANGED, NO_RANGES, os_error, summary
from penstock.sources.storage.store_requests import store_request


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
# Seconds before each repetition of an answer that broke off, where obstore does not repeat it.
_BODY_PAUSES = (0.2, 1.0, 5.0, 15.0)

# Failures of HEAD after which GET may succeed.
_NO_HEAD = r"400 |501 |Content-Length"

# Some servers compress on the fly, which would change bytes, sizes and ranges. A server that ignores this is refused.
_PLAIN = {"Accept-Encoding": "identity"}
_COMPRESSIONS = {"gzip", "x-gzip", "deflate", "compress", "br", "zstd"}


def is_remote(path: str | bytes | os.PathLike[str]) -> bool:
    """Return True if a path names an object of a store.

    >>> is_remote("s3://bucket/key"), is_remote("/data/key")
    (True, False)
    """
    text = os.fspath(path)
    # Only the start counts: a local file name may contain "://" further on.
    return b"://" in text[:8] if isinstance(text, bytes) else "://" in text[:8]


@store_request
def head(path: str) -> ObjectInfo:
    """Return the size and the ETag of an object.

    Raises:
        OSError: The object does not exist, or the store does not answer.
    """
    url = _parse(path)
    api, store = _obstore(), _refreshed_client(url)
    try:
        meta = api.head(store, url.key)
    except Exception as error:
        failure = url.os_error(error)
        if url.scheme.lists:
            if isinstance(failure, FileNotFoundError):
                _check_bucket(api, store, url)
            raise failure from error
        # Some web servers answer GET but not HEAD; obstore reports their status 405 as a missing object.
        if not isinstance(failure, FileNotFoundError | PermissionError) and not re.search(_NO_HEAD, str(failure)):
            raise failure from error
        try:
            meta = api.get(store, url.key).meta
        except Exception:  # noqa: BLE001  # the failure of HEAD is the one to report
            raise failure from error
    return ObjectInfo(path, meta["size"], _tag(url, meta))


def _tag(url: _ObjectURL, meta: Any) -> str:
    """Return a text that changes with the object: its ETag or, without one, its modification time and size."""
    tag: str = meta["e_tag"] or ""
    if not tag:
        modified = meta["last_modified"].timestamp()  # 0 without the header
        return f"{meta['size']} bytes of {modified:.0f}" if modified else size_tag(meta["size"])
    # Azure's listings omit the quotes that its other answers have. A web server that omits them also compares without
    # them, so `fetch` sends it no condition.
    return tag if tag.endswith('"') or not url.scheme.lists else f'"{tag}"'


def _check_bucket(api: Any, store: Any, url: _ObjectURL) -> None:
    """Raise a FileNotFoundError that names the bucket if the bucket is what does not exist.

    A response to HEAD lacks a body, so it cannot distinguish a missing bucket from a missing object; a listing can.
    """
    try:
        next(iter(api.list(store, "nothing", chunk_size=1)), None)
    except Exception as error:
        failure = url.os_error(error)
        if isinstance(failure, FileNotFoundError):
            raise failure from error


@store_request
def list_prefix(path: str) -> tuple[list[str], list[ObjectInfo]]:
    """List a prefix as a folder: return the names of its subfolders, and its objects.

    Raises:
        OSError: The store does not answer, or cannot list.
    """
    url = _parse(path)
    if not url.scheme.lists:
        raise OSError(errno.ENOTSUP, "HTTP servers cannot list directories; pass file URLs or a file_list")
    api, store = _obstore(), _refreshed_client(url)
    try:
        result = api.list_with_delimiter(store, url.key.rstrip("/") or None)
    except Exception as error:
        raise url.os_error(error) from error
    folders = [prefix.rpartition("/")[2] for prefix in result["common_prefixes"]]
    # Consoles and copying tools mark a folder with an empty object "folder/", which obstore lists as "folder".
    objects = [meta for meta in result["objects"] if meta["path"] != url.key.rstrip("/")]
    return folders, [ObjectInfo(f"{url.root}/{meta['path']}", meta["size"], _tag(url, meta)) for meta in objects]


@store_request
def fetch(extent: ByteRange, unless: str = "") -> tuple[Array, str] | None:
    """Fetch a byte range.

    Args:
        extent: The byte range.
        unless: ETag of a cached copy. If the object still has it, the result is None.

    Returns:
        The bytes, read-only uint8, and the ETag of the object.

    Raises:
        OSError: The range cannot be fetched, or the object's ETag differs from the range's, or the store compresses it.
        ResourceError: The object is larger than a sample may be.
    """
    url = _parse(extent.path)
    # Our own tags of times and sizes are not ETags: only quoted ones can be conditions of a request.
    options: dict[str, Any] = {"if_match": extent.etag} if extent.etag.startswith('"') else {}
    if unless.startswith('"'):
        options["if_none_match"] = unless
    if extent.stop is not None:
        options["range"] = (extent.start, extent.stop)
    client = _clients.get(url.root) or _refreshed_client(url)
    try:
        return _answer(client, url, extent, options, unless)
    except PermissionError:
        # Credentials may have been rotated since. Reading the environment for every request would cost time.
        refreshed = _refreshed_client(url)
        if refreshed is client:
            raise
        return _answer(refreshed, url, extent, options, unless)


def _answer(
    client: Any, url: _ObjectURL, extent: ByteRange, options: dict[str, Any], unless: str
) -> tuple[Array, str] | None:
    """Request a byte range, as for `fetch`; again if the connection breaks before the end and obstore cannot resume."""
    for pause in _BODY_PAUSES:
        try:
            return _answer_once(client, url, extent, options, unless)
        except _BrokenError:
            time.sleep(pause)
    return _answer_once(client, url, extent, options, unless)


def _answer_once(
    client: Any, url: _ObjectURL, extent: ByteRange, options: dict[str, Any], unless: str
) -> tuple[Array, str] | None:
    api = _obstore()
    try:
        result = api.get(client, url.key, options=options)
        meta, tag = result.meta, _tag(url, result.meta)
        if unless and tag == unless:
            return None
        _check_encoding(url, result.attributes.get("Content-Encoding") or "")
        if extent.limited:  # the size is known before the body is read
            check_sample_size(meta["size"], extent.path)
    except api.exceptions.NotModifiedError:
        return None
    except (ResourceError, _CompressedError):
        raise
    except Exception as error:
        raise url.os_error(error) from error
    try:
        data = result.bytes()
    except Exception as error:
        # obstore requests the rest of the bytes, which needs a strong ETag and a server with ranges.
        if tag.startswith('"') and NO_RANGES not in str(error):
            raise url.os_error(error) from error
        raise _BrokenError(errno.EIO, "the connection broke before the end of the file") from error
    if extent.etag and tag != extent.etag:  # servers may ignore conditions
        raise OSError(errno.ESTALE, CHANGED)
    expected = meta["size"] if extent.stop is None else extent.stop - extent.start
    if len(data) != expected:
        raise OSError(errno.EIO, f"it is cut short: {len(data)} of {expected} bytes came")
    return np.frombuffer(data, np.uint8), tag


class _BrokenError(OSError):
    """Answer that broke off, and that only a new request can replace."""


class _CompressedError(OSError):
    """Object whose bytes are delivered compressed."""


def _check_encoding(url: _ObjectURL, encoding: str) -> None:
    # A list, whose entries may have parameters. Others, such as identity and aws-chunked, leave the bytes as they are.
    encodings = {entry.partition(";")[0].strip().lower() for entry in encoding.split(",")}
    # The name of a .gz file promises these bytes; some servers declare their compression once more.
    if encodings & _COMPRESSIONS and not url.key.endswith((".gz", ".tgz", ".zst", ".br")):
        fix = "store it without compression, or turn the server's compression off"
        raise _CompressedError(errno.ENOTSUP, f"it is delivered compressed (Content-Encoding: {encoding}); {fix}")


def is_object(path: str) -> bool:
    """Return True if a path names an object, False if it names at most a prefix of objects.

    Raises:
        SourceError: The store does not answer.
    """
    try:
        with opening(path):
            head(path)
    except SourceNotFoundError:
        return False
    return True


def open_error(path: str, error: OSError) -> SourceError:
    """Return the error for a data set whose file or object cannot be opened."""
    if isinstance(error, FileNotFoundError) and not is_remote(path):
        return SourceNotFoundError(f"there is no file {path!r}")
    kind = SourceNotFoundError if isinstance(error, FileNotFoundError) else SourceError
    return kind(f"{path!r} cannot be read: {error.strerror}")


@contextmanager
def opening(path: str) -> Generator[None]:
    """Convert an OSError to the error for a data set whose file or object cannot be opened."""
    try:
        yield
    except OSError as error:
        raise open_error(path, error) from error


class _ObjectURL(NamedTuple):
    """A parsed path: its scheme, the scheme's name, the bucket or host, and the key."""

    scheme: Scheme
    name: str
    bucket: str
    key: str

    @property
    def root(self) -> str:
        return f"{self.name}://{self.bucket}"

    def os_error(self, error: Exception) -> OSError:
        """Convert an error of obstore to the OSError that a local file would raise."""
        return os_error(error, self.bucket, self.scheme.credentials)


def _parse(path: str) -> _ObjectURL:
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
    return _ObjectURL(SCHEMES[name], name, bucket, key)


# Clients by root URL, and the environment with which each was made.
_clients: dict[str, Any] = {}
_environments: dict[str, dict[str, str]] = {}
_lock = threading.Lock()


def _refreshed_client(url: _ObjectURL) -> Any:
    """Return the client of a bucket, a new one if the environment has other credentials or endpoints than before."""
    prefix = url.scheme.environment
    environment = {name: value for name, value in os.environ.items() if prefix and name.startswith(prefix)}
    with _lock:
        if url.root not in _clients or _environments[url.root] != environment:
            _clients[url.root] = _make_client(url, environment)
            _environments[url.root] = environment
        return _clients[url.root]


def _make_client(url: _ObjectURL, environment: dict[str, str]) -> Any:
    # obstore refuses http:// unless allowed; an endpoint in the environment, such as a local server, allows it.
    plain = url.name == "http" or any(value.startswith("http://") for value in environment.values())
    client: dict[str, Any] = {"allow_http": plain, **_CLIENT_OPTIONS}
    if not url.scheme.lists:  # a web server
        client["default_headers"] = _PLAIN
    options = {"client_options": client, "retry_config": _RETRIES}
    try:
        return getattr(_obstore().store, url.scheme.client)(url.scheme.location.format(url.bucket), **options)
    except Exception as error:
        raise OSError(errno.EACCES, f"the store cannot be opened: {summary(error)}") from error


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
