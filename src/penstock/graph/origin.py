"""Which reader the samples of a value come from."""

from __future__ import annotations

from penstock.errors import DefinitionError
from penstock.graph.node import Node, Value
from penstock.graph.operator import Reader
from penstock.graph.selection import Select


def read_by(value: Value) -> Node | None:
    """The only reader whose named values this one is computed from; None where there is none, or several.

    Raises:
        DefinitionError: the branches of a condition have different ones.
    """
    waiting, seen = [value], {value}
    readers: dict[Node, None] = {}
    branches: Node | None = None
    while waiting:
        each = waiting.pop()
        node = each.node
        if isinstance(node.operator, Reader):
            if each.index < node.operator.source.named:
                readers[node] = None
            continue
        inputs = node.inputs
        if isinstance(node.operator, Select):
            branches, inputs = node, inputs[node.operator.branches :]
        new = [source for source in inputs if source not in seen]
        seen.update(new)
        waiting += new
    if len(readers) > 1 and branches is not None:
        raise DefinitionError(
            "the samples of the branches come from different readers",
            given=", ".join(map(str, readers)),
            fix="take the property in each branch",
        )
    return next(iter(readers)) if len(readers) == 1 else None
