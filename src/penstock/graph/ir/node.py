"""Nodes, the values between them, and the graph they form. All immutable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from penstock.core import CallSite, Spec
from penstock.core.dataclass import dataclass
from penstock.errors import DefinitionError, PenstockError, UnknownReaderError, did_you_mean
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.fusion_contract import FusedOperator
from penstock.graph.ir.operator import DeviceKernel, Operator, Reader, StreamInput
from penstock.numerics.permutation import hash_words


class CallResult(NamedTuple):
    """Result of a call: output `number`."""

    call: OperatorCall
    number: int


# Arguments as pairs of a name ("" for an input) and text, which contains results of other calls in their places.
Given = tuple[tuple[str, tuple[str | CallResult, ...]], ...]


@dataclass(eq=False)
class OperatorCall:
    """A use of a public operator as the user wrote it. It may make several nodes.

    Args:
        kind: The operator's public name.
        arguments_text: Arguments of the call, without those that equal a default or do not change samples.
        outputs: Returned values: for each the id of its node and the index of the node's output.
        arguments: All arguments of the call, positional and by name, for serialization.
    """

    kind: str
    arguments_text: Given
    outputs: tuple[tuple[int, int], ...] = ()
    arguments: tuple[tuple[Any, ...], Mapping[str, Any]] = ((), MappingProxyType({}))

    @property
    def sources(self) -> tuple[CallResult, ...]:
        """Results of other calls among the arguments."""
        return tuple(piece for _, pieces in self.arguments_text for piece in pieces if isinstance(piece, CallResult))


# Compared by identity: two equal calls are two nodes, for example with different random numbers.
@dataclass(frozen=True, eq=False, repr=False)
class Node:
    """Use of an operator in a definition.

    Args:
        operator: The operator.
        kind: The operator's public name, such as "crop_mirror_normalize".
        inputs: Values that it computes from.
        arguments: Arguments: values of the graph or constants.
        schema: Declarations of those arguments that kernels receive with an entry per row.
        specs: Specs of its outputs.
        id: Index in the definition.
        stream: Index among the nodes of the definition that draw random bits; 0 for all others.
        seed: Seed of this node alone, if the user set one.
        name: Name set by the user, or "".
        device: Placement hint, "gpu" or "cpu", or None.
        where: Line of the user's program that made it.
        call: Call that made it; None for a node of the engine.
        guard: Boolean per row, True if the node is computed for the row; None for all rows.
    """

    operator: Operator
    kind: str
    inputs: tuple[Value, ...]
    arguments: Mapping[str, Value | Any]
    specs: tuple[Spec, ...]
    id: int
    stream: int
    seed: int | None
    name: str
    device: str | None
    where: CallSite
    call: OperatorCall | None = None
    guard: Value | None = None
    schema: Mapping[str, Argument] = field(default_factory=dict[str, Argument])

    def __post_init__(self) -> None:
        # Cached now, while that of all sources is known: later, a long chain would exceed the recursion limit.
        _ = self.device_only

    @property
    def values(self) -> tuple[Value, ...]:
        """Outputs. They are not stored: they refer to the node, and a reference cycle would keep its data set open."""
        return tuple(Value(self, index) for index in range(len(self.specs)))

    @property
    def node_arguments(self) -> Mapping[str, Value]:
        """Arguments that are values of the graph."""
        return {name: value for name, value in self.arguments.items() if isinstance(value, Value)}

    @property
    def constants(self) -> Mapping[str, Any]:
        """Arguments that are the same for all samples."""
        return {name: value for name, value in self.arguments.items() if not isinstance(value, Value)}

    @property
    def operands(self) -> tuple[Value, ...]:
        """Values that it computes from: inputs and arguments."""
        return (*self.inputs, *self.node_arguments.values())

    @property
    def sources(self) -> tuple[Value, ...]:
        """Values that must be computed before it: its operands and its guard."""
        return self.operands if self.guard is None else (*self.operands, self.guard)

    @cached_property
    def device_only(self) -> bool:
        """True if only the device program can compute it: it is a device kernel or depends on one."""
        return isinstance(self.operator, DeviceKernel) or any(value.node.device_only for value in self.sources)

    @property
    def as_fused(self) -> FusedOperator:
        """Description of the node for fusion."""
        varies = bool(self.node_arguments) or self.operator.random_bits > 0
        return FusedOperator(self.operator, self.inputs[0].spec, self.specs[0], varies)

    def with_inputs(self, to: Callable[[Value], Value]) -> Node:
        """Return the same node on other values: `to` maps each value that it computes from."""
        arguments = {name: to(value) if isinstance(value, Value) else value for name, value in self.arguments.items()}
        guard = None if self.guard is None else to(self.guard)
        return replace(self, inputs=tuple(map(to, self.inputs)), arguments=arguments, guard=guard)

    def key(self, seed: int) -> tuple[int, int]:
        """Return seed and stream of its random numbers for a pipeline with `seed`. The node's own seed determines both.

        Readers do not have a stream: all readers that use the pipeline's seed follow one order.
        """
        # Stream 0 for all: two operators with the same seed draw the same numbers, as in DALI.
        return (seed, self.stream) if self.seed is None else (hash_words(self.seed), 0)

    def __str__(self) -> str:
        return self.kind if not self.name else f"{self.kind} {self.name!r}"


@dataclass(frozen=True, slots=True)
class Value:
    """Output number `index` of a node."""

    node: Node
    index: int = 0

    @property
    def spec(self) -> Spec:
        """Spec of the value."""
        return self.node.specs[self.index]

    def __str__(self) -> str:
        return str(self.node) + (f"[{self.index}]" if len(self.node.specs) > 1 else "")


class NodeHandle:
    """Reference to a value, held by the user.

    Args:
        value: The output of a node.
    """

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    @property
    def result(self) -> CallResult:
        """The value as a result of the call that made its node.

        Raises:
            LookupError: The engine made its node.
        """
        node, index = self.value.node, self.value.index
        if node.call is None:
            raise LookupError(str(self.value))
        place = (node.id, index)
        return CallResult(node.call, node.call.outputs.index(place) if place in node.call.outputs else index)


def handles(result: Any) -> Iterator[NodeHandle]:
    """Yield the node handles in arguments or results of an operator, also in lists, tuples and mappings."""
    if isinstance(result, NodeHandle):
        yield result
    elif isinstance(result, Mapping):
        for item in cast(Mapping[Any, Any], result).values():
            yield from handles(item)
    elif isinstance(result, tuple | list):
        listed = cast(list[Any], result)
        kinds = set(map(type, listed))  # a list of a million labels has one type, so its items need not be visited
        if any(issubclass(kind, NodeHandle | Mapping | tuple | list) for kind in kinds):
            for item in listed:
                yield from handles(item)


def upstream_nodes(ends: Iterable[Node]) -> Iterable[Node]:
    """Return nodes and all nodes that they depend on, each once."""
    # Without recursion, since a chain of nodes may be longer than Python's recursion limit.
    nodes: dict[Node, None] = {}
    todo = list(ends)
    while todo:
        node = todo.pop()
        if node not in nodes:
            nodes[node] = None
            todo += [value.node for value in node.sources]
    return nodes


@dataclass(frozen=True, eq=False)
class Graph:
    """A definition: its outputs, and through them all nodes that they depend on.

    Args:
        outputs: Values of a batch.
        name: Name of the definition in messages.
        preserved: Nodes that run even if no output depends on them.
        output_names: Names of the outputs, if the definition returned a dict; otherwise empty.
    """

    outputs: tuple[Value, ...]
    name: str = field(default="pipeline")
    preserved: tuple[Node, ...] = ()
    output_names: tuple[str, ...] = ()

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Nodes that outputs depend on, and preserved ones, in the order of the definition, which is topological."""
        ends = [*(value.node for value in self.outputs), *self.preserved]
        return tuple(sorted(upstream_nodes(ends), key=lambda node: node.id))

    @cached_property
    def readers(self) -> tuple[Node, ...]:
        """Readers, in the order of the definition."""
        return tuple(node for node in self.nodes if isinstance(node.operator, Reader))

    @cached_property
    def feeds(self) -> tuple[Node, ...]:
        """Inputs from streams, in the order of the definition."""
        return tuple(node for node in self.nodes if isinstance(node.operator, StreamInput))

    @cached_property
    def consumers(self) -> Mapping[Value, tuple[Node, ...]]:
        """Nodes that compute from each value."""
        result: dict[Value, tuple[Node, ...]] = {}
        for node in self.nodes:
            # A node that uses a value twice is one consumer of it.
            for value in dict.fromkeys(node.sources):
                result[value] = (*result.get(value, ()), node)
        return result

    def reader(self, name: str) -> Node:
        """Return the reader with a name.

        Raises:
            UnknownReaderError: No reader has this name.
        """
        for node in self.readers:
            if node.name == name:
                return node
        if any(node.name == name for node in self.feeds):
            raise UnknownReaderError(
                f"{name!r} is an external source of unknown length, not a reader",
                given=f"reader_name={name!r}",
                fix="pass size=..., or let the source end the epoch; fn.readers.items reads objects that have a length",
            )
        names = [node.name for node in self.readers if node.name]
        raise UnknownReaderError(
            f"{self.name} has no reader named {name!r}",
            given=f"readers named {', '.join(map(repr, names)) or 'nothing'}",
            fix=did_you_mean(name, names) if names else f'fn.readers.…(name="{name}")',
        )

    def rewrite(self, change: Callable[[Node], Node]) -> Graph:
        """Return this graph with every node replaced by the result of `change`.

        `change` gets each node once, in topological order, with its inputs already replaced. It may return the same
        node, another node with as many outputs, or an earlier node.
        """
        changed: dict[Node, Node] = {}

        def moved(value: Value) -> Value:
            return Value(changed[value.node], value.index)

        # Topological order: the inputs of a node are replaced before the node.
        for node in self.nodes:
            changed[node] = change(node.with_inputs(moved))
        preserved = tuple(changed[node] for node in self.preserved)
        return Graph(tuple(map(moved, self.outputs)), self.name, preserved, self.output_names)


def infer_specs(
    operator: Operator,
    inputs: tuple[Value, ...],
    arguments: Mapping[str, Any],
    instead: Mapping[Value, Spec] | None = None,
) -> tuple[Spec, ...]:
    """Return the specs of an operator's outputs on these inputs. A shape that follows from a probed one is not probed.

    Args:
        operator: The operator.
        inputs: Values that it computes from.
        arguments: Values and constants.
        instead: Specs that replace those of some values.

    Raises:
        DefinitionError: The spec rule refuses the inputs. It may also raise ValueError, as its kernel does.
    """
    known = instead or {}

    def spec(value: Value) -> Spec:
        return known.get(value, value.spec)

    try:
        specs = operator.infer(
            *map(spec, inputs), **{n: spec(v) if isinstance(v, Value) else v for n, v in arguments.items()}
        )
    except PenstockError:
        raise
    except ValueError as error:
        # Spec rules share checks with kernels, which raise ValueError for a bad sample. Here the definition is wrong.
        raise DefinitionError(str(error)) from error
    return tuple(replace(spec, assumed=False) for spec in ((specs,) if isinstance(specs, Spec) else specs))
