"""Paired readers: readers that follow the same order, such as images and masks."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.graph import Node, Reader, parameters


def pair_readers(nodes: Sequence[Node], readers: Mapping[int, Sequence[Reader]]) -> dict[Node, Node]:
    """Map each reader to the first reader that visits as many samples in the same order; to itself if there is none.

    Readers of one length follow one order unless they differ in the options that determine it: shuffling, an explicit
    seed, shard, padding, and selected samples.

    Args:
        nodes: The readers, in the order of the definition.
        readers: As in `penstock.plan.shard_merge.MergedProgram`.
    """
    pairs: dict[Node, Node] = {}
    # A list, because parameters of readers need not be hashable.
    orders: list[tuple[Any, Node]] = []
    for node in nodes:
        order = _order(node, readers[node.id])
        first = next((other for known, other in orders if known == order), node)
        orders.append((order, first))
        pairs[node] = first
    return pairs


def _order(node: Node, readers: Sequence[Reader]) -> Any:
    # The source itself does not count: images and masks are in different files.
    sources = [(len(reader.source), reader.source.selection) for reader in readers]
    options = [{**parameters(reader), "source": source} for reader, source in zip(readers, sources, strict=True)]
    return options, node.seed if readers[0].shuffle else None
