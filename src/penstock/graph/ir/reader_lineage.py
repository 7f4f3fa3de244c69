"""Readers from which a value is computed."""

from collections.abc import Callable

from penstock.errors import DefinitionError
from penstock.graph.ir.branch_operators import BranchSelect
from penstock.graph.ir.node import Node, Value, upstream_nodes
from penstock.graph.ir.operator import Reader, StreamInput


def reader_value_of(value: Value, combines: Callable[[Node], bool] = lambda _: False) -> Value | None:
    """Return the output of a reader whose sample names apply to a value, or None if there is none or more than one.

    Args:
        value: The value.
        combines: True for nodes that have names of their own, made of those of several samples. They count like
            readers.

    Raises:
        DefinitionError: The branches of a condition come from different readers.
    """
    waiting, seen = [value], {value}
    names: dict[Value, None] = {}
    branches: Node | None = None
    while waiting:
        current = waiting.pop()
        node = current.node
        if isinstance(node.operator, Reader):
            source = node.operator.source
            if current.index < source.named_values:
                names[current if source.separate_names else node.values[0]] = None
            continue
        if combines(node):
            names[current] = None
            continue
        inputs = node.inputs
        if isinstance(node.operator, BranchSelect):
            branches, inputs = node, inputs[node.operator.branches :]
        if node.operator.moves_rows:
            continue  # the names of other rows apply, so this row has no name
        new = [source for source in inputs if source not in seen]
        seen.update(new)
        waiting += new
    if len(names) > 1 and branches is not None:
        raise DefinitionError(
            "the samples of the branches come from different readers",
            given=", ".join(map(str, names)),
            fix="take the property in each branch",
        )
    return next(iter(names)) if len(names) == 1 else None


def upstream_readers(node: Node) -> list[Node]:
    """Return the readers and streams that a node depends on."""
    return [source for source in upstream_nodes([node]) if isinstance(source.operator, Reader | StreamInput)]
