"""What of a reader the samples of a value come from."""

from __future__ import annotations

from penstock.errors import DefinitionError
from penstock.graph.ir.branch_operators import BranchSelect
from penstock.graph.ir.node import Node, Value
from penstock.graph.ir.operator import Reader, StreamInput


def reader_value_of(value: Value) -> Value | None:
    """What a reader names that this value is computed from; None where that is nothing, or has several names.

    Raises:
        DefinitionError: the branches of a condition have different ones.
    """
    waiting, seen = [value], {value}
    found: dict[Value, None] = {}
    branches: Node | None = None
    while waiting:
        each = waiting.pop()
        node = each.node
        if isinstance(node.operator, Reader):
            source = node.operator.source
            if each.index < source.named_values:
                found[each if source.separate_names else node.values[0]] = None
            continue
        inputs = node.inputs
        if isinstance(node.operator, BranchSelect):
            branches, inputs = node, inputs[node.operator.branches :]
        if node.operator.moves_rows:
            continue  # a row has the name of another one, or of several
        new = [source for source in inputs if source not in seen]
        seen.update(new)
        waiting += new
    if len(found) > 1 and branches is not None:
        raise DefinitionError(
            "the samples of the branches come from different readers",
            given=", ".join(map(str, found)),
            fix="take the property in each branch",
        )
    return next(iter(found)) if len(found) == 1 else None


def upstream_readers(node: Node) -> list[Node]:
    """The readers and streams that a node computes from."""
    found: dict[Node, None] = {}
    todo = [node]
    while todo:
        source = todo.pop()
        if isinstance(source.operator, Reader | StreamInput):
            found[source] = None
        todo += [value.node for value in source.sources]
    return list(found)
