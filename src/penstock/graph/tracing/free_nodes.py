"""Nodes that were made outside of any definition. One that uses them gets nodes of its own in their place."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from weakref import WeakKeyDictionary, WeakSet

from penstock.errors import DefinitionError
from penstock.graph.ir.node import Node, Value
from penstock.graph.ir.operator import StreamInput
from penstock.sources.external.feed_queue import FeedQueue

made_outside: WeakSet[Node] = WeakSet()
made_again: WeakKeyDictionary[Node, Callable[[], Value]] = WeakKeyDictionary()
"""What makes a node again in the definition that uses it: for inputs whose kind is not known before they are fed."""
OUTSIDE = 1 << 60
serials = itertools.count(-OUTSIDE)
"""Their numbers: they come before all nodes of a definition."""


def adopt(node: Node, own: Callable[[Value], Value], stream: int) -> Node:
    """A definition's node in place of one that was made outside.

    Args:
        node: the one that was made outside.
        own: gives the definition's value in place of another one.
        stream: the number of its random bits in the definition.
    """
    return replace(node.with_inputs(own), stream=stream)


def feed_queue_of(node: Node) -> FeedQueue | None:
    """The stream of a node that is fed by hand."""
    stream = node.operator.stream if isinstance(node.operator, StreamInput) else None
    return stream if isinstance(stream, FeedQueue) else None


def check_known(made: Node, own: Node) -> None:
    """Check that a node was made outside of what a definition knows of it.

    Args:
        made: the node.
        own: what stands for it in the definition.

    Raises:
        DefinitionError: it was made of a guess of what will be fed by hand.
    """
    if any(one.spec != other.spec for one, other in zip(made.operands, own.operands, strict=True)):
        raise DefinitionError(
            f"{made} was made outside of a definition, where it must be known what is fed",
            fix="dtype=..., ndim=...; or call it in the definition",
            where=made.where,
        )
