"""One graph out of the graphs that a definition gave for each shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph.node import Graph, Node, Value
from penstock.graph.operator import Reader, parameters


@dataclass(frozen=True)
class Program:
    """What all shards compute, and what each reads.

    Args:
        graph: the definition. A reader whose shards are slices of one global order stands in it as the reader of the
            whole; for the others, the reader of the first block stands for all.
        readers: per reader of the graph, by its serial number, the reader of each block, or one for all blocks.
    """

    graph: Graph
    readers: Mapping[int, tuple[Reader, ...]]


def merge(graphs: Sequence[Graph], shards: Sequence[int], num_shards: int) -> Program:
    """Check that the graphs differ in nothing but what they read, and join them.

    Readers that differ only in their shard, shard k for block k, are slices of one global order: they become one
    reader of the whole batch. Readers that differ otherwise stay apart, each with an order of its own.

    Args:
        graphs: one per block of rows that this process computes, or one for the whole batch.
        shards: the number of each of these blocks.
        num_shards: how many blocks the whole batch has.

    Raises:
        DefinitionError: the graphs compute different things.
    """
    first = graphs[0]
    for graph in graphs[1:]:
        _check_same(first, graph)
    joined: dict[int, tuple[Reader, ...]] = {}

    def join(node: Node) -> Node:
        if not isinstance(node.operator, Reader):
            return node
        readers = [_twin(first, graph, node).operator for graph in graphs]
        joined[node.serial] = _join([r for r in readers if isinstance(r, Reader)], shards, num_shards)
        return replace(node, operator=joined[node.serial][0])

    return Program(first.rewrite(join), joined)


def _join(readers: Sequence[Reader], shards: Sequence[int], num_shards: int) -> tuple[Reader, ...]:
    one = readers[0]
    if all(reader.like(one) and reader.shard_id == one.shard_id for reader in readers) and len(readers) > 1:
        return (one,)
    slices = [(reader.shard_id, reader.num_shards) for reader in readers] == [(k, num_shards) for k in shards]
    if slices and num_shards > 1 and not one.contiguous and all(reader.like(one) for reader in readers):
        return (replace(one, shard_id=0, num_shards=1),)
    return tuple(readers)


def _twin(first: Graph, other: Graph, node: Node) -> Node:
    return other.nodes[[n.serial for n in first.nodes].index(node.serial)]


def _check_same(first: Graph, other: Graph) -> None:
    for mine, theirs in zip(first.nodes, other.nodes, strict=False):
        if _shape_of(mine, first) != _shape_of(theirs, other) or not _same_work(mine, theirs):
            error = DefinitionError(
                f"{first.name} builds different pipelines for different shards",
                given=f"{mine} for the first shard, {theirs} for another",
                expected="only readers to depend on shard_id",
            )
            error.where = theirs.where
            raise error
    if len(first.nodes) != len(other.nodes) or _wiring(first.outputs, first) != _wiring(other.outputs, other):
        raise DefinitionError(f"{first.name} builds different pipelines for different shards")


def _wiring(values: Sequence[Value], graph: Graph) -> list[tuple[int, int]]:
    return [(graph.nodes.index(value.node), value.index) for value in values]


def _shape_of(node: Node, graph: Graph) -> Any:
    return node.kind, node.stream, node.seed, node.specs, _wiring(node.sources, graph)


def _same_work(mine: Node, theirs: Node) -> bool:
    if isinstance(mine.operator, Reader) or isinstance(theirs.operator, Reader):
        return isinstance(mine.operator, Reader) and isinstance(theirs.operator, Reader)
    return (
        type(mine.operator) is type(theirs.operator)
        and _equal(parameters(mine.operator), parameters(theirs.operator))
        and _equal(
            {n: v for n, v in mine.arguments.items() if not isinstance(v, Value)},
            {n: v for n, v in theirs.arguments.items() if not isinstance(v, Value)},
        )
    )


def _equal(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    return mine.keys() == theirs.keys() and all(
        np.array_equal(cast(Any, value), theirs[name]) if isinstance(value, np.ndarray) else value == theirs[name]
        for name, value in mine.items()
    )
