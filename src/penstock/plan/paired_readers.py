"""Which readers of a definition follow one order, so that what they read side by side belongs together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.graph.ir.node import Node
from penstock.graph.ir.operator import Reader, parameters


def pair_readers(nodes: Sequence[Node], readers: Mapping[int, Sequence[Reader]]) -> dict[Node, Node]:
    """For each reader the first one that visits as many samples in the same order; itself where none did before it.

    Readers of one length follow one order, unless they differ in what that depends on: how they shuffle, a seed of
    their own, shard and padding, and which samples they choose.

    Args:
        nodes: the readers, in the order of the definition.
        readers: as in `penstock.plan.shard_merge.Program`.
    """
    found: dict[Node, Node] = {}
    orders: list[tuple[Any, Node]] = []
    for node in nodes:
        order = _order(node, readers[node.id])
        first = next((other for known, other in orders if known == order), node)
        orders.append((order, first))
        found[node] = first
    return found


def _order(node: Node, readers: Sequence[Reader]) -> Any:
    sources = [(len(reader.source), reader.source.selection) for reader in readers]
    options = [{**parameters(reader), "source": source} for reader, source in zip(readers, sources, strict=True)]
    return options, node.seed if readers[0].shuffle else None
