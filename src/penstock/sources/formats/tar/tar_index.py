"""Indexes of tar files in the format of DALI's ``wds2idx``: one line per sample with the positions of its files."""

import contextlib
import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from penstock.core import Array, Indices
from penstock.errors import SourceError
from penstock.native.compiled import Compiled, precompile
from penstock.sources.storage.byte_range import ByteRange
from penstock.sources.storage.disk_cache import fetch_cached, read_input

# Maximum number of distinct extensions in an index.
_KINDS = 1 << 16
# Slots of the hash table of extensions: twice as many, so that a search is short.
_SLOTS = 2 * _KINDS

# The data of each file of an archive begins at a multiple of this, after a header of this size.
_BLOCK_BYTES = 512

# Errors of `tarfile` for damaged headers.
TAR_ERRORS = (tarfile.TarError, OverflowError, RecursionError, IndexError, KeyError, EOFError)

# Headers only contain the first bytes of a name that is longer.
_NAME_BYTES = 100


@dataclass(frozen=True)
class Members:
    """Files of a tar archive, sample by sample.

    Args:
        extensions: Distinct extensions.
        kinds: int64 (files,), position of each file's extension in `extensions`.
        owners: int64 (files,), sample number of each file, ascending.
        starts: int64 (files,), offset of each file's data in bytes.
        sizes: int64 (files,), size of each file's data in bytes.
    """

    extensions: list[str]
    kinds: Indices
    owners: Indices
    starts: Indices
    sizes: Indices


def read_tar_index(index: str, path: str, size: int, tag: str) -> Members:
    """Read an index.

    Args:
        index: Path of the index.
        path: Path of its tar file.
        size: Size of the tar file in bytes.
        tag: ETag of the tar file; "" for a local one.

    Raises:
        SourceNotFoundError: The index does not exist.
        SourceError: It is malformed, or belongs to another file.
        OSError: The tar file cannot be read.
    """
    head, _, lines = read_input(index, "index", "omit index_paths to scan the files").rstrip().partition(b"\n")
    version, announced = (*head.split(), b"", b"")[:2]
    table = np.empty((len(lines) // 6 + 1, 4), np.int64)  # what is not written costs no memory
    kinds, count = np.zeros((_KINDS, 2), np.int64), np.zeros(3, np.int64)
    known = version in (b"v1.1", b"v1.2")
    if known:
        _parse(
            np.frombuffer(lines, np.uint8),
            3 if version == b"v1.1" else 4,
            table,
            kinds,
            np.zeros(_SLOTS, np.int32),
            count,
        )
    if not known or count[1] < 0 or announced != b"%d" % count[1]:
        raise SourceError(
            f"{index!r} is not an index of a tar file",
            expected="v1.2 and the number of samples, then a line per sample: extension, byte, size, name, per file",
            fix="omit index_paths to scan the files",
        )
    names: list[str] = [
        lines[start:stop].decode("utf-8", "surrogateescape") for start, stop in kinds[: count[2]].tolist()
    ]
    members = Members(names, *table[: count[0]].T)
    if np.any(members.starts > size - members.sizes):
        raise SourceError(f"the index {index!r} belongs to another file: it goes beyond its end at byte {size}")
    if np.any(members.starts % _BLOCK_BYTES):
        raise SourceError(f"the index {index!r} belongs to another file: data begins at multiples of {_BLOCK_BYTES}")
    if not len(members.starts):  # such as a shard all of whose samples were left out
        if size and fetch_cached(ByteRange(path, 0, min(size, _BLOCK_BYTES), tag)).any():
            raise SourceError(f"the index {index!r} belongs to another file: it lists no files, and {path!r} has some")
        return members
    for file in (0, -1):
        start, length = int(members.starts[file]), int(members.sizes[file])
        extension = names[int(members.kinds[file])]
        if not any(_describes(header, extension, length) for header in headers_before(path, start, tag)):
            what = f"{path!r} has no file with the extension {extension!r} and {length} bytes at byte {start}"
            raise SourceError(f"the index {index!r} belongs to another file: {what}")
    return members


def headers_before(path: str, start: int, tag: str = "") -> Iterator[tarfile.TarInfo]:
    """Yield the tar headers that end at a byte: one with the long name that may be before it, and it alone.

    Args:
        path: Path of the tar file.
        start: Offset of the data of a file.
        tag: ETag of the tar file, if it is known.

    Raises:
        OSError: The tar file cannot be read.
    """
    if start < _BLOCK_BYTES:
        return
    # A long name is a file of its own before the header: a header, and a block of data.
    first = max(start - 3 * _BLOCK_BYTES, 0)
    blocks = fetch_cached(ByteRange(path, first, start, tag)).tobytes()
    for head in (blocks, blocks[-_BLOCK_BYTES:]):
        with contextlib.suppress(*TAR_ERRORS), tarfile.open(fileobj=io.BytesIO(head), mode="r:") as archive:
            if (header := archive.next()) is not None and header.offset_data == len(head):
                yield header


def _describes(header: tarfile.TarInfo, extension: str, size: int) -> bool:
    """Return True if a header is that of a file with an extension and a size."""
    is_cut = len(header.name.encode(errors="surrogateescape")) >= _NAME_BYTES
    return header.size == size and (is_cut or header.name.rpartition("/")[2].partition(".")[2] == extension)


@precompile("u1[1] i8 i8[2] i8[2] i4[1] i8[1]")
@Compiled
def _parse(text: Array, width: int, rows: Array, kinds: Array, slots: Array, count: Array) -> None:
    """Parse the lines of an index.

    Args:
        text: uint8, the lines.
        width: Words per file: 3 in v1.1, 4 in v1.2, which adds the name.
        rows: int64 (files, 4), receives extension, sample, start and size of each file.
        kinds: int64 (extensions, 2), receives the byte range in `text` at which each extension first occurs.
        slots: int32 (a power of two,), zeros; the hash table of extensions: their numbers, plus 1.
        count: int64 (3,), zeros; receives the numbers of files, samples and extensions; the second is -1 if the text
            is not an index.
    """
    at, files, samples, words = 0, 0, 0, 0
    while at < text.shape[0]:
        first = at
        while at < text.shape[0] and text[at] != 32 and not 9 <= text[at] <= 13:
            at += 1
        if at > first:
            part, value = words % width, 0
            if part == 0:
                value = _kind(text, first, at, kinds, slots, count)
                rows[files, 1] = samples
            elif part < 3:
                value = _number(text, first, at)
            if value < 0:
                count[1] = -1
                return
            if part < 3:
                rows[files, part + (part > 0)] = value
            words += 1
            files += part + 1 == width
        if at == text.shape[0] or text[at] == 10:
            if words == 0 or words % width:
                count[1] = -1
                return
            samples += 1
            words = 0
        at += 1
    count[0], count[1] = files, samples


@Compiled
def _kind(text: Array, first: int, stop: int, kinds: Array, slots: Array, count: Array) -> int:
    """Return the number of an extension; -1 if there are too many."""
    slot = 2166136261  # the hash function is FNV-1a with 32 bits
    for at in range(first, stop):
        slot = ((slot ^ int(text[at])) * 16777619) & 0xFFFFFFFF
    slot &= slots.shape[0] - 1
    while slots[slot]:
        kind = int(slots[slot]) - 1
        same = 0
        if kinds[kind, 1] - kinds[kind, 0] == stop - first:
            while same < stop - first and text[kinds[kind, 0] + same] == text[first + same]:
                same += 1
        if same == stop - first:
            return kind
        slot = (slot + 1) & (slots.shape[0] - 1)
    kind = int(count[2])
    if kind == kinds.shape[0]:
        return -1
    kinds[kind, 0], kinds[kind, 1] = first, stop
    slots[slot] = kind + 1
    count[2] = kind + 1
    return kind


@Compiled
def _number(text: Array, first: int, stop: int) -> int:
    """Return a whole number; -1 if the text is not one or has more than 18 digits."""
    # 18 digits always fit in int64.
    value = 0
    for at in range(first, stop):
        if not 48 <= text[at] <= 57:
            return -1
        value = value * 10 + (int(text[at]) - 48)
    return value if stop - first <= 18 else -1
