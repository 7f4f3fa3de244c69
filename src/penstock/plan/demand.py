"""Which values must have one shape for all samples, though the definition does not tell that they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.data.spec import Extent
from penstock.errors import PenstockError
from penstock.graph.node import Graph, Node, Value, infer


def demanded(graph: Graph, *, dense_outputs: bool) -> tuple[Value, ...]:
    """The ragged values of which a consumer needs one shape.

    Two kinds of consumer do: an iterator, which delivers arrays, and an operator that says so (`needs_one_shape`: a
    reshape to a fixed shape). The demand passes from an output to the inputs, as far as the output's shape follows
    from theirs; a decoder, which makes shapes from content, ends it.

    Args:
        graph: the definition.
        dense_outputs: whether its outputs must be dense.
    """
    todo = list(graph.outputs) if dense_outputs else []
    todo += [value for node in graph.nodes if node.operator.needs_one_shape for value in node.inputs]
    found: dict[Value, None] = {}
    seen: set[Value] = set()
    while todo:
        value = todo.pop()
        if value.spec.extent is Extent.RAGGED and value not in seen:
            seen.add(value)
            if not value.node.device_bound:  # there sample 0 cannot be looked at, but its inputs can
                found[value] = None
            todo += () if value.node.operator.reads_content else value.node.sources
    return tuple(found)


def resolve(graph: Graph, shapes: Mapping[Value, tuple[int, ...]]) -> Graph:
    """The graph with the shapes that sample 0 showed, and all specs that follow from them.

    Raises:
        DefinitionError: an operator cannot work on what sample 0 is.
    """
    probed = {(value.node.serial, value.index): shape for value, shape in shapes.items()}

    def with_specs(node: Node) -> Node:
        try:
            specs = infer(node.operator, node.inputs, node.arguments)
        except PenstockError as error:
            error.where = error.where or node.where
            raise
        return replace(
            node,
            specs=tuple(
                spec.probe(probed[key]) if (key := (node.serial, index)) in probed and not spec.dense else spec
                for index, spec in enumerate(specs)
            ),
        )

    return graph.rewrite(with_specs)
