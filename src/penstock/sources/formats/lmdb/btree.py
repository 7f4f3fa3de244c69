"""Reader of LMDB's file format: finds the byte range of each record in the B-tree.

A file consists of pages of equal size. Transactions write the root of the tree alternately to the first two pages, the
meta pages. Branch pages point to other pages, leaf pages contain keys and values, and long values have overflow pages.
The file is not memory-mapped, and every number is checked before use, so that a damaged file raises an error instead
of crashing the process.
"""

import struct
from array import array
from dataclasses import dataclass

from penstock.sources.storage.random_access_file import Opened

_HEADER = struct.Struct("<QHHHH")  # of a page: number, unused, flags, end of the pointers, begin of the nodes
_META = struct.Struct("<IIQQ IHHQQQQQ IHHQQQQQ QQ")  # magic, version, then of two trees each: size of a page, ...
_NODE = struct.Struct(
    "<HHHH"
)  # low and high half of a size or page number, flags or its highest part, length of the key
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 1, 2, 4, 8
# Flags of a node: its value is on overflow pages; its value is a subtree; its key has several values.
_BIG, _SUB, _DUPLICATES = 1, 2, 4
# Flag of a tree whose keys may have several values.
_DUPLICATE_KEYS = 4
_MAGIC, _VERSION = 0xBEEFC0DE, 1
# Root of an empty tree.
_NOWHERE = (1 << 64) - 1
# Size of the record of a named database, which has its name as the key.
_DATABASE_BYTES = 48
# Size of the header of a page, also of the first page of a long value.
HEAD = _HEADER.size


class CorruptDatabaseError(Exception):
    """Error for bytes that are not an LMDB database, or only part of one."""


class NamedDatabaseError(CorruptDatabaseError):
    """Error for a file with named databases."""


@dataclass(frozen=True, slots=True)
class MetaPage:
    """Meta page of the last transaction: its number, the page size, and the root, depth and length of the tree."""

    transaction: int
    page: int
    root: int
    depth: int
    records: int


class KeyIndex:
    """Keys, starts and sizes of all records in the order of the tree, as flat arrays.

    A value that begins `HEAD` bytes into a page is on overflow pages: in a leaf page, the header of a node comes first.
    """

    def __init__(self) -> None:
        self.keys = bytearray()
        self.ends = array("Q", [0])
        self.starts, self.sizes = array("Q"), array("Q")

    def __len__(self) -> int:
        return len(self.starts)

    def key(self, number: int) -> bytes:
        """Return the key of a record."""
        return bytes(self.keys[self.ends[number] : self.ends[number + 1]])


def read_meta_page(file: Opened) -> MetaPage:
    """Return the newer of the two meta pages.

    Raises:
        CorruptDatabaseError: One of them is not a meta page.
    """
    # The page size, and with it the position of the second meta page, is known only from the first.
    first = _meta(file.pread(HEAD + _META.size, 0), 0)
    second = _meta(file.pread(HEAD + _META.size, first.page), 1)
    if first.page != second.page:
        raise CorruptDatabaseError("its first two pages differ in the size of a page")
    return max(first, second, key=lambda root: root.transaction)


def _meta(data: bytes, number: int) -> MetaPage:
    if len(data) < HEAD + _META.size:
        raise CorruptDatabaseError("it is shorter than two pages")
    page, _, flags, _, _ = _HEADER.unpack_from(data)
    fields = _META.unpack_from(data, HEAD)
    magic, version, size = fields[0], fields[1], fields[4]
    kind, depth, records, root, transaction = fields[13], fields[14], fields[18], fields[19], fields[21]
    if page != number or not flags & _META_PAGE or magic != _MAGIC:
        raise CorruptDatabaseError(f"page {number} does not begin a database")
    if version != _VERSION:
        raise CorruptDatabaseError(f"version {version} of the format; {_VERSION} can be read")
    if not 512 <= size <= 1 << 16 or size & (size - 1):
        raise CorruptDatabaseError(f"pages of {size} bytes")
    if kind & _DUPLICATE_KEYS:
        raise CorruptDatabaseError("keys with several values cannot be read")
    return MetaPage(transaction, size, root, depth, records)


def walk_tree(file: Opened, root: MetaPage) -> KeyIndex:
    """Walk the tree and return its records.

    Raises:
        CorruptDatabaseError: A page is damaged, or begins past the end of the file.
    """
    index, end = KeyIndex(), file.size
    todo = [] if root.root == _NOWHERE else [(root.root, 1)]
    seen = 0
    while todo:
        number, level = todo.pop()
        seen += 1
        # A tree visits each page at most once, so more visits than the file has pages mean a cycle.
        if level > root.depth or seen * root.page > end:
            raise CorruptDatabaseError("its pages lead in circles")
        page = file.pread(root.page, number * root.page) if (number + 1) * root.page <= end else b""
        if len(page) < root.page:
            raise CorruptDatabaseError(f"page {number} lies past its end: it is cut short")
        flags, pointers = _pointers(page, number)
        try:
            if level == root.depth and flags & _LEAF:
                _leaf(index, page, number, pointers)
            elif level < root.depth and flags & _BRANCH:
                # The stack is last in, first out: reversed, the children are visited in the order of their keys.
                todo += [(_child(page, pointer), level + 1) for pointer in reversed(pointers)]
            else:
                raise CorruptDatabaseError(f"page {number} is of another kind than its place in the tree")
        except struct.error:
            raise CorruptDatabaseError(f"page {number} points past its end") from None
    if len(index) != root.records:
        raise CorruptDatabaseError(f"{len(index)} records are found, and it says {root.records}")
    last = max(map(int.__add__, index.starts, index.sizes), default=0)
    if last > end:
        raise CorruptDatabaseError(f"it is cut short: {end} bytes, and a record ends at {last}")
    return index


def _pointers(page: bytes, number: int) -> tuple[int, tuple[int, ...]]:
    """Return the flags of a page and the offsets of its nodes."""
    own, _, flags, lower, upper = _HEADER.unpack_from(page)
    if own != number or not HEAD <= lower <= upper <= len(page) or lower % 2:
        raise CorruptDatabaseError(f"page {number} is damaged")
    count = (lower - HEAD) // 2
    pointers = struct.unpack_from(f"<{count}H", page, HEAD)
    if count and min(pointers) < upper:
        raise CorruptDatabaseError(f"page {number} is damaged")
    return flags, pointers


def _child(page: bytes, pointer: int) -> int:
    low, high, top, _ = _NODE.unpack_from(page, pointer)
    return low | high << 16 | top << 32


def _leaf(index: KeyIndex, page: bytes, number: int, pointers: tuple[int, ...]) -> None:
    """Add the records of a leaf page."""
    keys, ends, starts, sizes, unpack = index.keys, index.ends, index.starts, index.sizes, _NODE.unpack_from
    base, length = number * len(page), len(page)
    for pointer in pointers:
        low, high, flags, key = unpack(page, pointer)
        value = pointer + 8 + key
        size = low | high << 16
        if flags & _BIG:
            start = int.from_bytes(page[value : value + 8], "little") * length + HEAD
            stop = value + 8
        else:
            start, stop = base + value, value + size
        # `LmdbRecords` reads the arrays as int64, where a start above 63 bits would be negative.
        if stop > length or flags & (_SUB | _DUPLICATES) or start >> 63:
            if flags == _SUB and size == _DATABASE_BYTES:
                raise NamedDatabaseError(
                    f"contains a named database, {page[pointer + 8 : value].decode(errors='replace')!r}"
                )
            raise CorruptDatabaseError(f"page {number} is damaged, or holds more than keys with one value each")
        keys += page[pointer + 8 : value]
        ends.append(len(keys))
        starts.append(start)
        sizes.append(size)


def check_overflow_page(head: bytes, page: int, number: int, size: int) -> None:
    """Check the header of the first overflow page of a long value.

    Raises:
        CorruptDatabaseError: The page does not begin a value of this size.
    """
    own, _, flags, low, high = _HEADER.unpack(head)
    if own != number or not flags & _OVERFLOW or (low | high << 16) * page < HEAD + size:
        raise CorruptDatabaseError(f"page {number} is no part of it any more")
