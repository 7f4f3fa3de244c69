"""Merge of the graphs that a definition returned for each shard into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, cast

import numpy as np

from penstock.core.dataclass import dataclass
from penstock.core.dtypes import is_float
from penstock.errors import DefinitionError
from penstock.graph import Graph, Node, Reader, StreamInput, Value, parameters
from penstock.sources.stream import Stream


@dataclass(frozen=True)
class MergedProgram:
    """Graph of all shards, with the readers and streams of each.

    Args:
        graph: The definition. Readers whose shards are slices of one global order are replaced by one reader of the
            whole; otherwise the graph has the reader of the first block.
        readers: By the id of a reader's node, the reader of each block, or one for all blocks.
        local: Ids of the nodes that have one reader or stream per block.
        streams: By the id of a stream's node, the stream of each block, or one for all blocks.
    """

    graph: Graph
    readers: Mapping[int, tuple[Reader, ...]]
    local: frozenset[int] = frozenset()
    streams: Mapping[int, tuple[Stream, ...]] = field(default_factory=dict[int, tuple[Stream, ...]])


@dataclass(frozen=True)
class ReaderFacts:
    """Properties of a reader that merging depends on. Processes exchange them.

    Args:
        order: The reader's parameters, except the shard.
        dataset: The fingerprint of its source.
        first: The location of the first sample.
        shard_id: The shard that it reads.
        num_shards: The number of shards.
        length: The number of positions in an epoch.
    """

    order: str
    dataset: str
    first: str
    shard_id: int
    num_shards: int
    length: int

    @staticmethod
    def of(reader: Reader) -> ReaderFacts:
        """Return the facts of a reader."""
        order = {name: value for name, value in parameters(reader).items() if name not in ("source", "shard_id")}
        source, length = reader.source, reader.order(0).epoch_length
        order = repr(sorted(order.items()))
        return ReaderFacts(order, source.fingerprint(), source.describe(0), reader.shard_id, reader.num_shards, length)


def merge_shards(
    graphs: Sequence[Graph],
    shards: Sequence[int],
    num_shards: int,
    facts: Sequence[Sequence[ReaderFacts]] | None = None,
) -> MergedProgram:
    """Check that the graphs differ only in their readers, and merge them.

    Readers that differ only in their shard, shard k for block k, are slices of one global order: one reader of the
    whole batch replaces them. Other readers stay separate, each with its own order.

    Args:
        graphs: One per block of rows of this process, or one for the whole batch.
        shards: The number of each of these blocks.
        num_shards: The number of blocks of the whole batch.
        facts: For each block of the whole batch, in the order of the rows, the facts of the graph's readers; None if
            this process computes all blocks, or if one graph is used for all.

    Raises:
        DefinitionError: the graphs differ in other nodes than readers.
    """
    first = graphs[0]
    for graph in graphs[1:]:
        _check_same(first, graph)
    joined: dict[int, tuple[Reader, ...]] = {}
    streams: dict[int, tuple[Stream, ...]] = {}
    local: set[int] = set()

    def join(node: Node) -> Node:
        if not isinstance(node.operator, Reader | StreamInput):
            return node
        # By position: `_check_same` has compared the nodes one by one.
        position = [other.id for other in first.nodes].index(node.id)
        twins = [graph.nodes[position].operator for graph in graphs]
        # Streams have no order, so they are shared if all blocks have the same source.
        if isinstance(node.operator, StreamInput):
            per_block = [cast(StreamInput, twin).stream for twin in twins]
            same = facts is None and all(stream.same_source(per_block[0]) for stream in per_block)
            streams[node.id] = tuple(per_block[:1] if same else per_block)
            if not same:
                local.add(node.id)
            return node
        readers = [cast(Reader, twin) for twin in twins]
        if facts is None:
            one = _join(readers, shards, num_shards)
        else:
            one = _join_facts(readers[0], [of_block[len(joined)] for of_block in facts])
        if one is None and (len(readers) > 1 or facts is not None):
            local.add(node.id)
        joined[node.id] = tuple(readers) if one is None else (one,)
        return replace(node, operator=joined[node.id][0])

    return MergedProgram(first.rewrite(join), joined, frozenset(local), streams)


def _join(readers: Sequence[Reader], shards: Sequence[int], num_shards: int) -> Reader | None:
    """Return the reader that replaces the readers of all blocks; None if they stay separate."""
    one = readers[0]
    # Readers without `shard_id` are the same in every block: each block reads its slice of the whole order.
    if all(reader.same_order(one) and reader.shard_id == one.shard_id for reader in readers) and len(readers) > 1:
        return one
    # Contiguous shards are static parts of the data, not slices of one order.
    slices = [(reader.shard_id, reader.num_shards) for reader in readers] == [(k, num_shards) for k in shards]
    if slices and num_shards > 1 and not one.contiguous and all(reader.same_order(one) for reader in readers):
        return replace(one, shard_id=0, num_shards=1)
    return None


def _join_facts(reader: Reader, facts: Sequence[ReaderFacts]) -> Reader | None:
    """Return the same as `_join`, from the facts of all blocks, some of them in other processes."""
    one, count = facts[0], len(facts)
    if all(item == one for item in facts):
        return reader
    slices = [(item.shard_id, item.num_shards) for item in facts] == [(k, count) for k in range(count)]
    alike = all((item.order, item.dataset) == (one.order, one.dataset) for item in facts)
    return replace(reader, shard_id=0, num_shards=1) if slices and alike and not reader.contiguous else None


def _check_same(first: Graph, other: Graph) -> None:
    for mine, theirs in zip(first.nodes, other.nodes, strict=False):
        if _shape_of(mine, first) != _shape_of(theirs, other) or not same_work(mine, theirs):
            raise DefinitionError(
                f"{first.name} builds different pipelines for different shards",
                given=f"{mine} for the first shard, {theirs} for another",
                expected="only readers to depend on shard_id",
                where=theirs.where,
            )
    if len(first.nodes) != len(other.nodes) or _wiring(first.outputs, first) != _wiring(other.outputs, other):
        raise DefinitionError(f"{first.name} builds different pipelines for different shards")


def _wiring(values: Sequence[Value], graph: Graph) -> list[tuple[int, int]]:
    return [(graph.nodes.index(value.node), value.index) for value in values]


def _shape_of(node: Node, graph: Graph) -> Any:
    return node.kind, node.stream, node.seed, node.specs, _wiring(node.sources, graph)


def same_work(mine: Node, theirs: Node) -> bool:
    """Return True if two nodes of one kind compute the same from equal inputs, or both read or receive samples."""
    # Readers and streams may differ in any way: those that cannot be merged stay separate.
    for kind in (Reader, StreamInput):
        if isinstance(mine.operator, kind) or isinstance(theirs.operator, kind):
            return isinstance(mine.operator, kind) and isinstance(theirs.operator, kind)
    return (
        type(mine.operator) is type(theirs.operator)
        and _equal(parameters(mine.operator), parameters(theirs.operator))
        and _equal(mine.constants, theirs.constants)
    )


def _equal(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    return mine.keys() == theirs.keys() and all(_same(value, theirs[name]) for name, value in mine.items())


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, np.ndarray):
        # NaN differs from itself, but is the same constant.
        return np.array_equal(cast(Any, mine), theirs, equal_nan=is_float(cast(Any, mine).dtype))
    if isinstance(mine, tuple) and isinstance(theirs, tuple):
        pair = cast(tuple[Any, ...], mine), cast(tuple[Any, ...], theirs)
        return len(pair[0]) == len(pair[1]) and all(map(_same, *pair))
    return mine == theirs
