"""What tells one definition from another: what it computes, not where, on what, or with which code."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from penstock.core.call_site import CallSite
from penstock.graph.ir.node import CallResult, Graph, Node, NodeHandle, OperatorCall
from penstock.graph.ir.operator import Reader, ViewKernel


@dataclass(frozen=True)
class CanonicalDefinition:
    """A definition as text: the calls that its outputs need, each after those whose results it takes.

    Args:
        calls: a line of text per call; the last one has the outputs.
        lines: the line of the user's program for each, where it has one.
    """

    calls: tuple[str, ...]
    lines: tuple[CallSite | None, ...] = field(compare=False)

    @cached_property
    def fingerprint(self) -> str:
        """All of it in 16 digits."""
        return hashlib.sha256("\n".join(self.calls).encode()).hexdigest()[:16]


def fingerprint(graph: Graph) -> str:
    """The fingerprint of a definition."""
    return canonical_definition(graph).fingerprint


def canonical_definition(graph: Graph) -> CanonicalDefinition:
    """What a definition computes, as text.

    It has the operators' public names, the arguments as the user gave them, and what the random numbers of each depend
    on. Left out is what may change between a run and its continuation: the data set (it has its own fingerprint), shard
    numbers, hints, names, and what classes and fields do the work. Functions count by their names.
    """
    nodes: dict[OperatorCall, list[Node]] = {}
    for node in graph.nodes:
        if node.call is not None:
            nodes.setdefault(node.call, []).append(node)
    same = {call: call.sources[0] for call, made in nodes.items() if _changes_nothing(call, made)}

    def found(result: CallResult) -> CallResult:
        while result.call in same:
            result = same[result.call]
        return result

    outputs = [found(NodeHandle(value).result) for value in graph.outputs]
    calls = _sorted([*(output.call for output in outputs), *(call for call in nodes if call not in same)], found)
    kinds = [call.kind for call in calls]
    counted = {call: kinds[:number].count(call.kind) for number, call in enumerate(calls)}

    def named(result: CallResult) -> str:
        call, number = found(result)
        which = f"#{counted[call] + 1}" if counted[call] else ""
        return call.kind + which + (f"[{number}]" if len(call.outputs) > 1 else "")

    texts: list[str] = []
    for call in calls:
        given = [
            name
            + "=" * bool(name)
            + "".join(named(piece) if isinstance(piece, CallResult) else piece for piece in pieces)
            for name, pieces in call.arguments_text
        ]
        depends = "".join(_depends(node, graph) for node in nodes.get(call, ()))
        texts.append(f"{call.kind}({', '.join(given)}){depends}")
    lines = [nodes[call][0].where if call in nodes else None for call in calls]
    return CanonicalDefinition((*texts, f"outputs({', '.join(map(named, outputs))})"), (*lines, None))


def _changes_nothing(call: OperatorCall, nodes: list[Node]) -> bool:
    """Whether a call gives just what it was given, as one does that only says where to run."""
    return (
        len(call.arguments_text) == len(call.sources) == 1
        and all(isinstance(node.operator, ViewKernel) for node in nodes)
        and nodes[-1].specs == tuple(value.spec for value in nodes[0].inputs)
    )


def _sorted(calls: Iterable[OperatorCall], found: Callable[[CallResult], CallResult]) -> list[OperatorCall]:
    """These calls and all whose results they take, each after those; the order of the user's lines does not matter."""
    done: dict[OperatorCall, None] = {}
    for call in calls:
        path = [call]
        while path:
            sources = (found(result).call for result in path[-1].sources)
            if missing := next((source for source in sources if source not in done), None):
                path.append(missing)
            else:
                done.setdefault(path.pop())
    return list(done)


def _depends(node: Node, graph: Graph) -> str:
    """What else an operator's results depend on, besides seed and place."""
    if isinstance(node.operator, Reader):
        parts = f" of {node.operator.num_shards} parts" if node.operator.contiguous else ""
        return f", reader {graph.readers.index(node)}{parts}"
    return f", stream {node.stream}" if node.operator.random_bits and node.seed is None else ""
