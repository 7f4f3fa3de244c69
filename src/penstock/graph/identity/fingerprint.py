"""Fingerprints of definitions. They identify the computation, not its placement, data set or implementation."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import field
from functools import cached_property

from penstock.core import CallSite
from penstock.core.dataclass import dataclass
from penstock.graph.ir.node import CallResult, Graph, Node, NodeHandle, OperatorCall
from penstock.graph.ir.operator import Reader, ViewKernel
from penstock.graph.ir.sample_cache import SampleCache


@dataclass(frozen=True)
class CanonicalDefinition:
    """Definition as text: the calls that its outputs need, in topological order.

    Args:
        calls: A line of text per call; the last line has the outputs.
        lines: The line of the user's program for each call; None for calls of penstock's own.
    """

    calls: tuple[str, ...]
    lines: tuple[CallSite | None, ...] = field(compare=False)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the calls, 16 hexadecimal digits."""
        return hashlib.sha256("\n".join(self.calls).encode()).hexdigest()[:16]


def fingerprint(graph: Graph) -> str:
    """Return the fingerprint of a definition."""
    return canonical_definition(graph).fingerprint


def canonical_definition(graph: Graph) -> CanonicalDefinition:
    """Return a definition as text.

    The text has the operators' public names, the arguments as the user wrote them, and the random streams. It leaves
    out everything that may change between a run and its continuation: the data set (which has its own fingerprint),
    shard numbers, hints, names, and classes and fields of operators. Functions count by their names.
    """
    nodes: dict[OperatorCall, list[Node]] = {}
    for node in graph.nodes:
        if node.call is not None:
            nodes.setdefault(node.call, []).append(node)
    # `.cpu()`, `.gpu()` and the like only say where to run, so their results count as their inputs.
    aliases = {call: call.sources for call, group in nodes.items() if _is_identity(call, group)}

    def resolve(result: CallResult) -> CallResult:
        while result.call in aliases:
            result = aliases[result.call][result.number]
        return result

    outputs = [resolve(NodeHandle(value).result) for value in graph.outputs]
    calls = _sorted([*(output.call for output in outputs), *(call for call in nodes if call not in aliases)], resolve)
    # Two calls of one operator are told apart by their number in this order.
    kinds = [call.kind for call in calls]
    numbers = {call: kinds[:number].count(call.kind) for number, call in enumerate(calls)}

    def name_of(result: CallResult) -> str:
        call, number = resolve(result)
        suffix = f"#{numbers[call] + 1}" if numbers[call] else ""
        return call.kind + suffix + (f"[{number}]" if len(call.outputs) > 1 else "")

    texts: list[str] = []
    for call in calls:
        arguments = [
            name
            + "=" * bool(name)
            + "".join(name_of(piece) if isinstance(piece, CallResult) else piece for piece in pieces)
            for name, pieces in call.arguments_text
        ]
        identity = "".join(_identity_text(node, graph) for node in nodes.get(call, ()))
        texts.append(f"{call.kind}({', '.join(arguments)}){identity}")
    lines = [nodes[call][0].where if call in nodes else None for call in calls]
    return CanonicalDefinition((*texts, f"outputs({', '.join(map(name_of, outputs))})"), (*lines, None))


def _is_identity(call: OperatorCall, nodes: list[Node]) -> bool:
    """True if a call returns its inputs unchanged."""
    return (
        len(call.arguments_text) == len(call.sources) == len(call.outputs) >= 1
        and all(isinstance(node.operator, ViewKernel | SampleCache) for node in nodes)
        and nodes[-1].specs == tuple(value.spec for value in nodes[0].inputs)
    )


def _sorted(calls: Iterable[OperatorCall], resolve: Callable[[CallResult], CallResult]) -> list[OperatorCall]:
    """Sort calls and all calls they depend on topologically. The order of the user's lines does not matter."""
    # An explicit stack: definitions may be deeper than Python's limit of recursion.
    done: dict[OperatorCall, None] = {}
    for call in calls:
        path = [call]
        while path:
            sources = (resolve(result).call for result in path[-1].sources)
            if missing := next((source for source in sources if source not in done), None):
                path.append(missing)
            else:
                done.setdefault(path.pop())
    return list(done)


def _identity_text(node: Node, graph: Graph) -> str:
    """Return the number of a reader or random stream, on which results depend besides the arguments."""
    if isinstance(node.operator, Reader):
        parts = f" of {node.operator.num_shards} parts" if node.operator.contiguous else ""
        return f", reader {graph.readers.index(node)}{parts}"
    return f", stream {node.stream}" if node.operator.random_bits and node.seed is None else ""
