"""Objects of a store, by paths such as ``s3://bucket/key``: their sizes, their bytes, what lies under a prefix.

The store is asked by obstore (the extra `stores`), which takes credentials, regions and endpoints from the environment
and repeats requests that fail for a while; `direct` asks some for many objects at once. Whatever goes wrong is an
OSError that says what, as with local files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.core import optional_import
from penstock.errors import ResourceError, SourceError, SourceNotFoundError
from penstock.sources.storage.byte_range import Answer, ByteRange, ObjectInfo
from penstock.sources.storage.sample_limit import check_sample_size

if TYPE_CHECKING:
    from penstock.sources.storage.direct_http import Direct

_REMOTE = re.compile(r"(s3|gs|az|https?)://([^/]+)/*(.*)", re.DOTALL)
_LOST_SLASH = re.compile(r"(s3|gs|az|https?):/[^/]")
_SETTINGS = ("AWS_", "GOOGLE_", "AZURE_")
"""What names of environment variables begin with that a store's client depends on."""

_RETRIES: dict[str, Any] = {"max_retries": 6}
_AT_ONCE = 32
"""How many requests are under way at once where no other threads fetch."""

_ASKED_TOGETHER = re.compile("(s3|https?)://[^/]+")
_LONGEST_TOGETHER = 1 << 20
"""Bytes of the longest extents that are asked for with others: what is longer comes as fast from the library."""

_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; AWS_SKIP_SIGNATURE=true reads a public bucket",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS; GOOGLE_SKIP_SIGNATURE=true reads a public bucket",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}

_CHANGED = "the object has been written to since the data set was opened"
_ASKED_MACHINES = ("/latest/api/token", "/latest/meta-data", "metadata.google", "token request")
"""What is in errors where a machine of the cloud was asked for credentials, and was none."""


def is_remote(path: str | bytes | os.PathLike[str]) -> bool:
    """Whether a path names an object of a store.

    >>> is_remote("s3://bucket/key"), is_remote("/data/key")
    (True, False)
    """
    text = os.fspath(path)
    return b"://" in text[:8] if isinstance(text, bytes) else "://" in text[:8]


def head(path: str) -> ObjectInfo:
    """What is known of an object.

    Raises:
        OSError: there is none, or the store does not answer.
    """
    client, key = _open(path)
    api, store = client.api, client.store
    try:
        meta = api.head(store, key)
    except Exception as error:
        failure = _failure(path, error)
        if not isinstance(failure, FileNotFoundError) and "501" not in str(failure):
            raise failure from error
        if not path.startswith("http"):
            _bucket_exists(api, store, path)
            raise failure from error
        try:
            meta = api.get(store, key).meta  # a server may know no HEAD
        except Exception:  # noqa: BLE001  # then it is not that
            raise failure from error
    return ObjectInfo(path, meta["size"], _tag(meta))


def _tag(meta: Any) -> str:
    """What changes when an object does: its ETag, else when it was written to; "" where nothing is known."""
    tag: str = meta["e_tag"] or ""
    if not tag:
        time = meta["last_modified"].timestamp()
        return f"of {time:.0f}" if time else ""
    return tag if tag.endswith('"') else f'"{tag}"'  # Azure lists them without quotes


def _bucket_exists(api: Any, store: Any, path: str) -> None:
    """Find out why there is no object: an answer without a body does not say.

    Raises:
        FileNotFoundError: the bucket does not exist.
    """
    try:
        next(iter(api.list(store, "nothing", chunk_size=1)), None)
    except Exception as error:
        failure = _failure(path, error)
        if isinstance(failure, FileNotFoundError):
            raise failure from error


def list_prefix(path: str) -> tuple[list[str], list[ObjectInfo]]:
    """What lies directly under a prefix: the names of the folders, and the objects.

    Raises:
        OSError: the store does not answer.
    """
    client, key = _open(path)
    if path.startswith("http"):
        raise OSError(errno.ENOTSUP, "a web server does not list what it has: give files or a file_list")
    try:
        result = client.api.list_with_delimiter(client.store, key.rstrip("/") or None)
    except Exception as error:
        raise _failure(path, error) from error
    folders = [each.rpartition("/")[2] for each in result["common_prefixes"]]
    base = path[: len(path) - len(key)] if key else path.rstrip("/") + "/"
    return folders, [ObjectInfo(base + each["path"], each["size"], _tag(each)) for each in result["objects"]]


def fetch(extent: ByteRange, unless: str = "") -> Answer | None:
    """The bytes of an extent, uint8, and the object's ETag. None where it still has the ETag `unless`.

    Raises:
        OSError: they cannot be fetched, or the object has another ETag than the extent's.
    """
    client, key = _client_of(extent.path)
    api = client.api
    options: dict[str, Any] = {"if_match": extent.etag} if extent.etag.startswith('"') else {}
    if unless.startswith('"'):
        options["if_none_match"] = unless
    if extent.stop is not None:
        options["range"] = (extent.start, extent.stop)
    try:
        result = api.get(client.store, key, options=options)
        meta, tag = result.meta, _tag(result.meta)
        if unless and tag == unless:
            return None
        if extent.limited:
            check_sample_size(meta["size"], extent.path)
        data = result.bytes()
    except api.exceptions.NotModifiedError:
        return None
    except ResourceError:
        raise
    except Exception as error:
        raise _failure(extent.path, error) from error
    if extent.etag and tag != extent.etag:  # servers may ignore conditions
        raise OSError(errno.ESTALE, _CHANGED)
    expected = meta["size"] if extent.stop is None else extent.stop - extent.start
    if len(data) != expected:
        raise OSError(errno.EIO, f"it is cut short: {len(data)} of {expected} bytes came")
    return np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8), tag


def can_batch(extent: ByteRange) -> bool:
    """Whether one thread may ask for an extent and others at once."""
    found = _ASKED_TOGETHER.match(extent.path)
    if found is None or (extent.stop is not None and extent.stop - extent.start > _LONGEST_TOGETHER):
        return False
    client = _clients.get(found[0])
    return client is None or client.asks_directly


def request_many(extents: Sequence[ByteRange]) -> list[Answer | None]:
    """Ask for extents, all at once.

    Returns:
        For each its bytes and the object's ETag; None where `fetch` is to be asked.
    """
    results: list[Answer | None] = [None] * len(extents)
    groups: dict[Direct, list[tuple[int, tuple[ByteRange, str]]]] = {}
    for place, extent in enumerate(extents):
        with contextlib.suppress(OSError):  # which `fetch` raises, too
            client, key = _client_of(extent.path)
            if client.direct is not None:
                groups.setdefault(client.direct, []).append((place, (extent, key)))
    for direct, group in groups.items():
        answers = direct.get([asked for _, asked in group])
        for (place, _), answer in zip(group, answers, strict=True):
            results[place] = answer
    return results


def close_idle() -> None:
    """Close the connections over which nothing is asked."""
    for client in list(_clients.values()):
        client.close_idle()


def map_concurrently(function: Any, items: Any) -> list[Any]:
    """What a function gives for each of some items, or the OSError that it raises, many at a time."""

    def outcome(item: Any) -> Any:
        try:
            return function(item)
        except OSError as error:
            return error

    work = list(items)
    if len(work) < 2:
        return [outcome(item) for item in work]
    with ThreadPoolExecutor(min(_AT_ONCE, len(work)), "penstock-fetch") as pool:
        return list(pool.map(outcome, work))


def is_object(path: str) -> bool:
    """Whether a path of a store is an object, and not only what the names of others begin with.

    Raises:
        SourceError: the store does not answer.
    """
    try:
        head(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise open_error(path, error) from error
    return True


def open_error(path: str, error: OSError) -> SourceError:
    """The error for a data set whose object cannot be opened."""
    kind = SourceNotFoundError if isinstance(error, FileNotFoundError) else SourceError
    return kind(f"{path!r} cannot be read: {error.strerror}")


class _Client:
    """What asks for the objects of a bucket.

    Args:
        api: the library.
        scheme: that of the paths.
        bucket: its name, or the web server's.
        settings: environment variables on which it depends.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, api: Any, scheme: str, bucket: str, settings: dict[str, str]) -> None:
        self.api, self.settings = api, settings
        self.store = _made(api, scheme, bucket, settings)
        self._place = scheme, bucket
        self._direct: Direct | None = None
        self._tried = False  # to make that

    @property
    def asks_directly(self) -> bool:
        """Whether some objects are asked for without the library, as far as it is known."""
        return not self._tried or (self._direct is not None and not self._direct.useless)

    @property
    def direct(self) -> Direct | None:
        """What asks without the library; None where that cannot be."""
        if not self._tried:
            from penstock.sources.storage.direct_http import direct_to  # noqa: PLC0415  # imports TLS, which not all need

            with contextlib.suppress(Exception):  # the library is asked, and says what is wrong
                self._direct = direct_to(self.api, *self._place, self.store, self.settings)
            self._tried = True
        return self._direct

    def close_idle(self) -> None:
        """Close the connections that are not in use."""
        if self._direct is not None:
            self._direct.close_idle()


_clients: dict[str, _Client] = {}
_lock = threading.Lock()
os.register_at_fork(after_in_child=_clients.clear)


def _parts(path: str) -> tuple[str, str, str]:
    found = _REMOTE.fullmatch(path)
    if found is None:
        lost = _LOST_SLASH.match(path)
        fix = "give the path as a str: pathlib takes one of its slashes away" if lost else None
        raise OSError(errno.EINVAL, "it is no path of an object, such as s3://bucket/key" + (f"; {fix}" if fix else ""))
    if found[1].startswith("http") and re.search(r"[?#]", found[3]):
        raise OSError(errno.EINVAL, "a path with a query, such as a signed one, cannot be read")
    return found[1], found[2], found[3]


def _client_of(path: str) -> tuple[_Client, str]:
    """The client of the path's bucket, and the key."""
    scheme, bucket, key = _parts(path)
    made = _clients.get(f"{scheme}://{bucket}")
    return (made, key) if made is not None else _open(path)


def _open(path: str) -> tuple[_Client, str]:
    """The same, for the credentials that the environment has now."""
    scheme, bucket, key = _parts(path)
    api = _obstore()
    name = f"{scheme}://{bucket}"
    settings = {name: value for name, value in os.environ.items() if name.startswith(_SETTINGS)}
    with _lock:
        made = _clients.get(name)
        if made is None or made.settings != settings:
            made = _clients[name] = _Client(api, scheme, bucket, settings)
    return made, key


def _made(api: Any, scheme: str, bucket: str, settings: dict[str, str]) -> Any:
    plain = scheme == "http" or any(value.startswith("http://") for value in settings.values())
    options: dict[str, Any] = {
        "client_options": {"allow_http": plain, "timeout": "600s", "read_timeout": "30s"},
        "retry_config": _RETRIES,
    }
    store = api.store
    try:
        if scheme.startswith("http"):
            return store.HTTPStore(f"{scheme}://{bucket}", **options)
        kind = {"s3": store.S3Store, "gs": store.GCSStore, "az": store.AzureStore}[scheme]
        return kind(bucket, **options)
    except Exception as error:
        raise OSError(errno.EACCES, f"the store cannot be opened: {_said(error)}") from error


def _obstore() -> Any:
    """The library.

    Raises:
        MissingExtraError: it is not installed.
    """
    optional_import.import_extra("obstore.store", "stores", "a path of an object store")
    return optional_import.import_extra("obstore", "stores", "a path of an object store")


def _said(error: Exception) -> str:
    """What a store answered, in short: its code and sentence, else the library's first line."""
    text = str(error).partition("\n\nDebug source")[0]
    code = re.search(r"<Code>(.*?)</Code>", text)
    sentence = re.search(r"<Message>(.*?)</Message>", text)
    if code:
        return f"{code[1]}: {sentence[1]}" if sentence else code[1]
    status = re.search(r"status code: (\d+ [A-Za-z ]+)", text)
    if status:
        return status[1].strip()
    return text.partition("\n")[0]


def _failure(path: str, error: Exception) -> OSError:
    """What went wrong, as local files would say it."""
    scheme, bucket, _ = _parts(path)
    kind, said = type(error).__name__, _said(error)
    if said.startswith(("NoSuchBucket", "ContainerNotFound")) or "bucket does not exist" in said:
        return FileNotFoundError(errno.ENOENT, f"the bucket {bucket!r} does not exist")
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "there is no such object")
    if kind == "PreconditionError":
        return OSError(errno.ESTALE, _CHANGED)
    if "Range request not supported" in said:
        return OSError(errno.ENOTSUP, "the server gives whole files only, and parts of this one are needed")
    variables = _CREDENTIALS.get(scheme, "")
    if any(part in str(error) for part in _ASKED_MACHINES):
        return PermissionError(errno.EACCES, f"no credentials are found in the environment; set {variables}")
    if isinstance(error, PermissionError) or kind in ("PermissionDeniedError", "UnauthenticatedError"):
        wanted = f"; the credentials come from {variables}" if variables else ""
        return PermissionError(errno.EACCES, f"the store refuses ({said}){wanted}")
    return OSError(errno.EIO, f"the store does not give it: {said}")
