"""Caches in memory that the programs of a process share.

A limit on memory is that of a cache, not of a program: an input host has a program for each process of a job, and a
process may iterate over the same data twice. Programs that store the same values of the same files use one store. If it
is not certain that the values are the same, each has its own store, and the limit holds for all of them together.

Other definitions and other data sets are other caches, each with its own limit, as in a program that states two limits:
to share one, the first would leave no room for the second, because nothing is dropped to make room. On an input host,
caches end with their programs; see `penstock.engine.input_hosts.program_table`.
"""

import threading
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np

from penstock.core.dataclass import dataclass
from penstock.graph import Node, Value
from penstock.graph.ir.node import upstream_nodes
from penstock.plan.shard_merge import same_work
from penstock.sources.source import Source
from penstock.sources.storage.sample_store import MemoryBudget, MemoryStore


@dataclass(frozen=True, eq=False)
class _Content:
    """Content of a store.

    Args:
        key: Definition of the values and fingerprint of the data set. Equal ones may differ in functions and content.
        source: The data set.
        nodes: The nodes that compute the values, in topological order.
        in_files: True if the samples are in files, whose changes a cache notices.
    """

    key: Hashable
    source: Source
    nodes: Sequence[Node]
    in_files: bool

    def is_similar(self, other: "_Content") -> bool:
        """Return True if a user means the same cache, as far as definition and data set tell."""
        if self.key != other.key or self.in_files != other.in_files:
            return False
        return not self.in_files or self.source.reads_same_samples(other.source)

    def is_same(self, other: "_Content") -> bool:
        """Return True if similar content has the same values for certain."""
        return self.in_files and _same_nodes(self.nodes, other.nodes)


# Weak keys: a store ends with the last program that uses it.
_contents: WeakKeyDictionary[MemoryStore, _Content] = WeakKeyDictionary()
_lock = threading.Lock()


def shared_memory_store(limit: int, key: Hashable, source: Source, values: Sequence[Value]) -> MemoryStore:
    """Return the store in memory of a cache, which programs of this process share.

    Args:
        limit: Limit on its bytes. If programs state different ones, the largest holds.
        key: Definition of the values and fingerprint of the data set.
        source: The data set.
        values: The values to store.
    """
    nodes = sorted(upstream_nodes(value.node for value in values), key=lambda node: node.id)
    content = _Content(key, source, nodes, _in_files(source))
    with _lock:
        similar = [store for store, other in _contents.items() if content.is_similar(other)]
        budget = similar[0].budget if similar else MemoryBudget(limit)
        budget.limit = max(budget.limit, limit)
        for store in similar:
            if content.is_same(_contents[store]):
                return store
        store = MemoryStore(budget)
        _contents[store] = content
        return store


def _in_files(source: Source) -> bool:
    """Return True if all samples are in files: arrays may be written to, and items are compared by a few of them."""
    inner = list(_sources(source.identity()))
    if inner:
        return all(map(_in_files, inner))
    return source.path(0) is not None or len(source.byte_ranges(np.arange(1))) > 0


def _sources(value: Any) -> Iterator[Source]:
    """Yield the sources in an identity."""
    if isinstance(value, Source):
        yield value
    elif isinstance(value, tuple):
        for item in cast(tuple[Any, ...], value):
            yield from _sources(item)


def _same_nodes(mine: Sequence[Node], theirs: Sequence[Node]) -> bool:
    """Return True if nodes of equal definitions compute the same. The definition as text only names functions."""
    if [(node.kind, node.specs) for node in mine] != [(node.kind, node.specs) for node in theirs]:
        return False
    try:
        return all(map(same_work, mine, theirs))
    except Exception:  # noqa: BLE001  # arguments may be anything, and their comparison may fail
        return False
