"""Nodes that were made outside of any definition. A definition that uses them adopts copies."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from weakref import WeakKeyDictionary, WeakSet

from penstock.errors import DefinitionError
from penstock.graph.ir.node import Node, Value
from penstock.graph.ir.operator import StreamInput
from penstock.sources.external.feed_queue import FeedQueue

made_outside: WeakSet[Node] = WeakSet()
# Functions that make a node again in the definition that uses it. Inputs of unknown kind need this: each pipeline feeds
# its own queue, and the kind may differ between pipelines.
made_again: WeakKeyDictionary[Node, Callable[[], Value]] = WeakKeyDictionary()

# Ids outside of definitions are negative, so that these nodes precede all nodes of a definition in its order.
OUTSIDE = 1 << 60
serials = itertools.count(-OUTSIDE)


def adopt(node: Node, own: Callable[[Value], Value], stream: int) -> Node:
    """Return the copy of a node for a definition.

    Args:
        node: Node that was made outside.
        own: Returns the definition's copy of a value.
        stream: Number of the node's random bits in the definition.
    """
    return replace(node.with_inputs(own), stream=stream)


def feed_queue_of(node: Node) -> FeedQueue | None:
    """Return the queue of a node that is fed by hand; None for other nodes."""
    stream = node.operator.stream if isinstance(node.operator, StreamInput) else None
    return stream if isinstance(stream, FeedQueue) else None


def check_known(node: Node, own: Node) -> None:
    """Check that a node made outside does not depend on the assumed kind of a fed input.

    Args:
        node: Node that was made outside.
        own: Copy of the node in the definition.

    Raises:
        DefinitionError: An operand has another spec in the definition.
    """
    if any(one.spec != other.spec for one, other in zip(node.operands, own.operands, strict=True)):
        raise DefinitionError(
            f"{node} was made outside of a definition, so the kind of its fed input must be declared",
            fix="dtype=..., ndim=...; or call it in the definition",
            where=node.where,
        )
