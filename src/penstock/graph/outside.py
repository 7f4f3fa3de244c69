"""Nodes that were made outside of any definition. One that uses them gets nodes of its own in their place."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from weakref import WeakSet

from penstock.data.fed import Fed
from penstock.errors import DefinitionError
from penstock.graph.node import Node, Value
from penstock.graph.operator import Feed

made_outside: WeakSet[Node] = WeakSet()
serials = itertools.count(-(1 << 60))
"""Their numbers: they come before all nodes of a definition."""


def copy_of(node: Node, own: Callable[[Value], Value], stream: int) -> Node:
    """A definition's node in place of one that was made outside.

    Args:
        node: it.
        own: gives the definition's value in place of another one.
        stream: the number of its random bits in the definition.
    """
    inputs = tuple(map(own, node.inputs))
    arguments = {name: own(given) if isinstance(given, Value) else given for name, given in node.arguments.items()}
    return replace(node, inputs=inputs, arguments=arguments, stream=stream)


def fed_by_hand(node: Node) -> Fed | None:
    """The stream of a node that is fed by hand.

    Raises:
        DefinitionError: nothing is said of what it will be fed.
    """
    stream = node.operator.stream if isinstance(node.operator, Feed) else None
    if not isinstance(stream, Fed):
        return None
    if stream.guessed:
        raise DefinitionError(
            f"{node} was made outside of a definition, where it must be known what is fed",
            fix="dtype=..., ndim=...; or call it in the definition",
            where=node.where,
        )
    return stream
