"""Access to object stores by paths such as ``s3://bucket/key``: sizes, bytes and listings.

obstore (the extra `stores`) sends the requests: it takes credentials, regions and endpoints from the environment and
retries failed requests. Every failure is an OSError with a readable message, as for local files.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.errors import ResourceError, SourceError, SourceNotFoundError
from penstock.sources.storage import store_client
from penstock.sources.storage.byte_range import ByteRange, ObjectInfo, size_tag
from penstock.sources.storage.sample_limit import check_sample_size
from penstock.sources.storage.store_client import Client, ObjectURL, parse_url, refreshed_client
from penstock.sources.storage.store_errors import CHANGED, NO_RANGES
from penstock.sources.storage.store_requests import store_request

# Seconds before each repetition of an answer that broke off, where obstore does not repeat it.
_BODY_PAUSES = (0.2, 1.0, 5.0, 15.0)

# Failures of HEAD after which GET may succeed.
_NO_HEAD = r"400 |501 |Content-Length"

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
    url = parse_url(path)
    api, store = refreshed_client(url)
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


def _tag(url: ObjectURL, meta: Any) -> str:
    """Return a text that changes with the object: its ETag or, without one, its modification time and size."""
    tag: str = meta["e_tag"] or ""
    if not tag:
        modified = meta["last_modified"].timestamp()  # 0 without the header
        return f"{meta['size']} bytes of {modified:.0f}" if modified else size_tag(meta["size"])
    # Azure's listings omit the quotes that its other answers have. A web server that omits them also compares without
    # them, so `fetch` sends it no condition.
    return tag if tag.endswith('"') or not url.scheme.lists else f'"{tag}"'


def _check_bucket(api: Any, store: Any, url: ObjectURL) -> None:
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
    url = parse_url(path)
    if not url.scheme.lists:
        raise OSError(errno.ENOTSUP, "HTTP servers cannot list directories; pass file URLs or a file_list")
    api, store = refreshed_client(url)
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
    url = parse_url(extent.path)
    # Our own tags of times and sizes are not ETags: only quoted ones can be conditions of a request.
    options: dict[str, Any] = {"if_match": extent.etag} if extent.etag.startswith('"') else {}
    if unless.startswith('"'):
        options["if_none_match"] = unless
    if extent.stop is not None:
        options["range"] = (extent.start, extent.stop)
    # Each of many threads runs this code with cold caches, in which a call of Python takes some 5 us: so the usual case
    # makes few of them.
    client = store_client.clients.get(url.root) or refreshed_client(url)
    pauses = iter(_BODY_PAUSES)
    while True:
        try:
            return _answer(client, url, extent, options, unless)
        except _BrokenError:
            pause = next(pauses, None)
            if pause is None:
                raise
            time.sleep(pause)
        except PermissionError:
            # Credentials may have been rotated since. Reading the environment for every request would cost time.
            before, client = client, refreshed_client(url)
            if client is before:
                raise


def _answer(
    client: Client, url: ObjectURL, extent: ByteRange, options: dict[str, Any], unless: str
) -> tuple[Array, str] | None:
    """Request a byte range, as for `fetch`.

    Raises:
        _BrokenError: The connection broke before the end, and obstore cannot request the rest.
    """
    api, store = client
    try:
        result = api.get(store, url.key, options=options)
        meta = result.meta  # a new dict each time
        tag = _tag(url, meta)
        if unless and tag == unless:
            return None
        encoding = result.attributes.get("Content-Encoding")
        if encoding:
            _check_encoding(url, encoding)
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


def _check_encoding(url: ObjectURL, encoding: str) -> None:
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
