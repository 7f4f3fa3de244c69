"""Calls of a definition: its nodes as the user wrote them, with names and arguments as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from penstock.graph.ir.node import CallResult, Graph, Node, OperatorCall, Value

# A call of the user, or a node of the engine, which has none.
Call = OperatorCall | Node

# Returns the text of a value that is an argument, given the name of the call that returns it.
ValueText = Callable[[Value, str], str]


class GraphCalls:
    """Calls of a graph, in the order in which their results are computed.

    Args:
        graph: The graph.

    Attributes:
        nodes: Nodes of each call.
        names: Name of each call: its operator, numbered if there are several.
    """

    def __init__(self, graph: Graph) -> None:
        nodes: dict[Call, list[Node]] = {}
        for node in graph.nodes:
            nodes.setdefault(node.call or node, []).append(node)
        # Constants that are not a part of a call are in the arguments of those that use them.
        kept = [
            (call, part) for call, part in nodes.items() if isinstance(call, OperatorCall) or call.kind != "constant"
        ]
        # An argument of a call may be a call, which is computed before its last node.
        self.nodes: dict[Call, list[Node]] = dict(sorted(kept, key=lambda item: item[1][-1].id))
        self.names = _names(self.nodes)
        self._places = {(value.node.id, value.index): value for node in graph.nodes for value in node.values}

    def results(self, call: Call) -> list[Value]:
        """Return the values that a call returns."""
        places = call.outputs if isinstance(call, OperatorCall) else ()
        return [self._places[place] for place in places if place in self._places] or list(self.nodes[call][-1].values)

    def arguments(self, call: Call, text: ValueText = lambda _, name: name) -> Iterator[tuple[str, str]]:
        """Yield the arguments that the user set, as names and texts. Inputs have no name.

        Args:
            call: The call.
            text: Returns the text of an argument that is a value of the graph; by default the name of its call.
        """
        if isinstance(call, Node):
            yield from (("", text(value, self._name(value))) for value in call.inputs)
            return
        for name, pieces in call.arguments_text:
            yield name, "".join(piece if isinstance(piece, str) else self._result(piece, text) for piece in pieces)

    def _result(self, result: CallResult, text: ValueText) -> str:
        call, number = result
        value = self._places.get(call.outputs[number]) if number < len(call.outputs) else None
        if value is None:
            return self.names.get(call, call.kind)
        output = f"[{number}]" if len(call.outputs) > 1 else ""
        return text(value, f"{self.names.get(call, call.kind)}{output}")

    def _name(self, value: Value) -> str:
        return self.names.get(value.node.call or value.node, value.node.kind)


def _names(calls: Mapping[Call, Any]) -> dict[Call, str]:
    kinds = [call.kind for call in calls]
    numbers: dict[str, int] = {}
    names: dict[Call, str] = {}
    for call in calls:
        numbers[call.kind] = numbers.get(call.kind, 0) + 1
        names[call] = call.kind if kinds.count(call.kind) == 1 else f"{call.kind} {numbers[call.kind]}"
    return names
