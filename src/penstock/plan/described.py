"""Work of the device program that the host describes: its numbers, row by row, cross beside the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from penstock.data.spec import Spec
from penstock.graph.chain import Canvas, ChainKernel
from penstock.graph.node import Node, Value
from penstock.graph.operator import Operator
from penstock.plan.rows import engine_node


@dataclass(frozen=True, eq=False)
class Describe(Operator):
    """An operator of the engine's own: the numbers of a chain, and its input on a canvas where samples differ in size.

    Args:
        nodes: the chain.
        canvas: how the device program does its work.
    """

    nodes: tuple[Node, ...]
    canvas: Canvas

    @property
    def given(self) -> Value:
        """The chain's input."""
        return self.nodes[0].inputs[0]

    def infer(self, *_sources: Spec) -> tuple[Spec, ...]:
        """A vector; and the largest size of the input, where it is ragged."""
        numbers, spec = Spec(np.dtype(np.float32), (self.canvas.size,)), self.given.spec
        return (numbers,) if spec.dense else (numbers, Spec(spec.dtype, spec.bounds, spec.layout))


def described(node: Node) -> bool:
    """Whether the host describes a node where the device program computes it: its numbers do not come from there."""
    if not isinstance(node.operator, ChainKernel):
        return False
    link = node.link
    return not (link.given.dense and link.made.dense) or (link.varies and not node.operator.traceable)


def canvas_of(nodes: Sequence[Node]) -> Canvas:
    """How the device program does the work of a chain.

    Raises:
        ValueError: it cannot.
    """
    chain = cast(ChainKernel, nodes[0].operator).chain([node.link for node in nodes])
    return chain.canvas([{name: _typical(node, name) for name in node.arguments} for node in nodes])


def _typical(node: Node, name: str) -> Any:
    """An argument with one entry."""
    schema, given = node.operator.schema[name], node.arguments[name]
    if not isinstance(given, Value):
        return schema.rows(np, given, 1, varying=False)
    return schema.rows(np, np.full((1, *given.spec.sizes), schema.typical), 1, varying=True)


def describing(nodes: tuple[Node, ...]) -> Node:
    """The node of the engine's own that describes a chain of the device program."""
    operator = Describe(nodes, canvas_of(nodes))
    sources = [value for node in nodes for value in node.linked.values()]
    sources += [] if operator.given.spec.dense else [operator.given]
    kind, inputs = f"described {nodes[-1].kind}", tuple(dict.fromkeys(sources))
    return replace(engine_node(operator, kind), inputs=inputs, guard=nodes[-1].guard)
