"""Nodes, the values between them, and the graph they form. All immutable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from penstock.core.call_site import CallSite
from penstock.core.spec import Spec
from penstock.errors import DefinitionError, PenstockError, UnknownReaderError, did_you_mean
from penstock.graph.ir.fusion import FusedOperator
from penstock.graph.ir.operator import DeviceKernel, Operator, Reader, StreamInput
from penstock.sources.order.permutation import hash_words


class CallResult(NamedTuple):
    """What a call returned, or number `number` of it."""

    call: OperatorCall
    number: int


Given = tuple[tuple[str, tuple[str | CallResult, ...]], ...]
"""Arguments as pairs of a name ("" for an input) and text; where a value of the graph was given, the text has it."""


@dataclass(eq=False)
class OperatorCall:
    """A use of a public operator as the user wrote it. It may make several nodes.

    Args:
        kind: the operator's public name.
        arguments_text: the arguments that the user gave, without those that equal a default or change no sample.
        outputs: what it returned: serial numbers of nodes, each with the number of one of its outputs.
        arguments: all that the user gave, by position and by name, as it is.
    """

    kind: str
    arguments_text: Given
    outputs: tuple[tuple[int, int], ...] = ()
    arguments: tuple[tuple[Any, ...], Mapping[str, Any]] = ((), MappingProxyType({}))

    @property
    def sources(self) -> tuple[CallResult, ...]:
        """What it was given of the results of other calls."""
        return tuple(piece for _, pieces in self.arguments_text for piece in pieces if isinstance(piece, CallResult))


@dataclass(frozen=True, eq=False, repr=False)
class Node:
    """One use of an operator in a definition.

    Args:
        operator: what it computes.
        kind: the operator's public name, such as "crop_mirror_normalize".
        inputs: the values it computes from.
        arguments: what may differ per sample: a value of the graph, or the constant that was given.
        specs: what is known of its outputs, one each.
        id: its number in the definition.
        stream: its number among the nodes of the definition that draw random bits; 0 for all others.
        seed: the seed that was given to this node alone.
        name: the name that was given to it, or "".
        device: the placement hint, "gpu" or "cpu"; None where none was given.
        where: the line that made it.
        call: the call that made it; None for a node of the engine's own.
        guard: a truth value per row that says for which rows it is computed; None where it is computed for all.
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

    def __post_init__(self) -> None:
        _ = self.device_only  # known of what it computes from: asked later, a long chain would be a deep recursion

    @property
    def values(self) -> tuple[Value, ...]:
        """Its outputs. They are not kept: a node that held them would be part of a cycle, and so would its source."""
        return tuple(Value(self, index) for index in range(len(self.specs)))

    @property
    def node_arguments(self) -> Mapping[str, Value]:
        """The arguments that are values of the graph."""
        return {name: given for name, given in self.arguments.items() if isinstance(given, Value)}

    @property
    def constants(self) -> Mapping[str, Any]:
        """The arguments that are the same for every sample."""
        return {name: given for name, given in self.arguments.items() if not isinstance(given, Value)}

    @property
    def operands(self) -> tuple[Value, ...]:
        """Every value it computes from, inputs and arguments."""
        return (*self.inputs, *self.node_arguments.values())

    @property
    def sources(self) -> tuple[Value, ...]:
        """Every value that has to be there before it is computed: its operands and its guard."""
        return self.operands if self.guard is None else (*self.operands, self.guard)

    @cached_property
    def device_only(self) -> bool:
        """Whether only the device program can compute it: it is a device kernel, or computes from one's outputs."""
        return isinstance(self.operator, DeviceKernel) or any(value.node.device_only for value in self.sources)

    @property
    def as_fused(self) -> FusedOperator:
        """The node as a link of a chain."""
        varies = bool(self.node_arguments) or self.operator.random_bits > 0
        return FusedOperator(self.operator, self.inputs[0].spec, self.specs[0], varies)

    def with_inputs(self, to: Callable[[Value], Value]) -> Node:
        """The same node on other values: `to` gives the one in place of each that it computes from."""
        arguments = {name: to(given) if isinstance(given, Value) else given for name, given in self.arguments.items()}
        guard = None if self.guard is None else to(self.guard)
        return replace(self, inputs=tuple(map(to, self.inputs)), arguments=arguments, guard=guard)

    def key(self, seed: int) -> tuple[int, int]:
        """Seed and stream of its random numbers, for a pipeline with `seed`. A seed of its own fixes both.

        Readers have no stream: those that the pipeline's seed shuffles follow one order.
        """
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
        """What is known of it."""
        return self.node.specs[self.index]

    def __str__(self) -> str:
        return str(self.node) + (f"[{self.index}]" if len(self.node.specs) > 1 else "")


class NodeHandle:
    """What the user holds of a value.

    Args:
        value: the output of a node that it stands for.
    """

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    @property
    def result(self) -> CallResult:
        """The value as a result of the call that made its node.

        Raises:
            LookupError: its node is one of the engine's own.
        """
        node, index = self.value.node, self.value.index
        if node.call is None:
            raise LookupError(str(self.value))
        place = (node.id, index)
        return CallResult(node.call, node.call.outputs.index(place) if place in node.call.outputs else index)


def handles(result: Any) -> Iterator[NodeHandle]:
    """The nodes in what an operator's function was given, or has returned."""
    if isinstance(result, NodeHandle):
        yield result
    elif isinstance(result, Mapping):
        for each in cast(Mapping[Any, Any], result).values():
            yield from handles(each)
    elif isinstance(result, tuple | list):
        listed = cast(list[Any], result)
        kinds = set(map(type, listed))  # few, where the list is long
        if any(issubclass(kind, NodeHandle | Mapping | tuple | list) for kind in kinds):
            for each in listed:
                yield from handles(each)


@dataclass(frozen=True, eq=False)
class Graph:
    """A whole definition: its outputs, and through them every node that matters.

    Args:
        outputs: the values that a batch consists of.
        name: what to call the definition in messages.
        preserved: nodes that run though no output may need them.
    """

    outputs: tuple[Value, ...]
    name: str = field(default="pipeline")
    preserved: tuple[Node, ...] = ()

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that matter, in the order of the definition, which is topological."""
        found: set[Node] = set()
        todo = [*(value.node for value in self.outputs), *self.preserved]
        while todo:
            node = todo.pop()
            if node not in found:
                found.add(node)
                todo += [value.node for value in node.sources]
        return tuple(sorted(found, key=lambda node: node.id))

    @cached_property
    def readers(self) -> tuple[Node, ...]:
        """The nodes that read, in the order of the definition."""
        return tuple(node for node in self.nodes if isinstance(node.operator, Reader))

    @cached_property
    def feeds(self) -> tuple[Node, ...]:
        """The nodes whose batches a stream gives, in the order of the definition."""
        return tuple(node for node in self.nodes if isinstance(node.operator, StreamInput))

    @cached_property
    def consumers(self) -> Mapping[Value, tuple[Node, ...]]:
        """Who computes from each value."""
        result: dict[Value, tuple[Node, ...]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(node.sources):
                result[value] = (*result.get(value, ()), node)
        return result

    def reader(self, name: str) -> Node:
        """The reader with a name.

        Raises:
            UnknownReaderError: there is none.
        """
        for node in self.readers:
            if node.name == name:
                return node
        if any(node.name == name for node in self.feeds):
            raise UnknownReaderError(
                f"{name!r} is no reader but a source of the program's own, of which nobody knows how long it is",
                given=f"reader_name={name!r}",
                fix="size=..., or none, and the source ends the epoch; fn.readers.items reads what has a length",
            )
        names = [node.name for node in self.readers if node.name]
        raise UnknownReaderError(
            f"{self.name} has no reader named {name!r}",
            given=f"readers named {', '.join(map(repr, names)) or 'nothing'}",
            fix=did_you_mean(name, names) if names else f'fn.readers.…(name="{name}")',
        )

    def rewrite(self, change: Callable[[Node], Node]) -> Graph:
        """This graph with every node replaced by what `change` makes of it, given its replaced inputs.

        `change` sees each node once, in topological order, and may return it as it is, another node with as many
        outputs in its place, or one of the nodes before it.
        """
        changed: dict[Node, Node] = {}

        def moved(value: Value) -> Value:
            return Value(changed[value.node], value.index)

        for node in self.nodes:
            changed[node] = change(node.with_inputs(moved))
        preserved = tuple(changed[node] for node in self.preserved)
        return Graph(tuple(map(moved, self.outputs)), self.name, preserved)


def infer_specs(
    operator: Operator,
    inputs: tuple[Value, ...],
    arguments: Mapping[str, Any],
    instead: Mapping[Value, Spec] | None = None,
) -> tuple[Spec, ...]:
    """The specs of an operator's outputs on these inputs. What follows from a probed shape is not probed itself.

    Args:
        operator: the operator.
        inputs: what it computes from.
        arguments: values and constants.
        instead: specs that stand for those of some values.

    Raises:
        DefinitionError: also for a ValueError, with which a spec rule says what a kernel would say of such a sample.
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
        raise DefinitionError(str(error)) from error
    return tuple(replace(spec, assumed=False) for spec in ((specs,) if isinstance(specs, Spec) else specs))
