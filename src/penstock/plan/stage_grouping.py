"""Stages: groups of nodes that the host computes together, and their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import cast

from penstock.core.dataclass import dataclass
from penstock.errors import DefinitionError
from penstock.graph import BatchKernel, Graph, Node, Reader, StreamInput, Value, WholeBatchKernel
from penstock.graph.ir.branch_operators import BranchSelect
from penstock.graph.ir.fusion_contract import FusibleOperator
from penstock.graph.ir.node import upstream_nodes
from penstock.graph.ir.sample_cache import SampleCache, follows_from_inputs
from penstock.plan.engine_operators import HostDescription, RowOperator, needs_host_description

# Bytes of a value per sample that a cache stores in place of the values from which it is computed.
_FEW_BYTES = 256


class StageKind(Enum):
    """Ways to compute a stage."""

    READ = "read"
    """Read samples by index, many at once."""
    FEED = "feed"
    """Take the batch of a stream."""
    ROWS = "rows"
    """Compute from the coordinates of the rows."""
    BATCH = "batch"
    """Call one batch kernel."""
    CHAIN = "chain"
    """Run a fused group of operators, in one pass over the data."""
    SAMPLE = "sample"
    """Run several nodes sample by sample, so that a sample stays in the CPU's cache."""
    DESCRIBE = "describe"
    """Describe a fused group for the device program."""
    WHOLE_BATCH = "whole batch"
    """Call a kernel that needs all samples of the batch."""
    SELECT = "select"
    """Merge the rows of branches."""
    CACHE = "cache"
    """Take values from a cache, and compute those that it does not have."""


@dataclass(frozen=True)
class Stage:
    """Nodes that are computed together.

    Args:
        nodes: The nodes, in topological order.
        way: The way to compute them.
        inner: Stages that compute the samples which a cache does not have, in order.
        stored: Values of the inner stages that the cache stores: those that the definition needs otherwise.
    """

    nodes: tuple[Node, ...]
    way: StageKind
    inner: tuple[Stage, ...] = ()
    stored: tuple[Value, ...] = ()

    @property
    def all_nodes(self) -> tuple[Node, ...]:
        """The nodes, and those of inner stages."""
        return (*(node for stage in self.inner for node in stage.nodes), *self.nodes)

    @property
    def guard(self) -> Value | None:
        """The guard that selects the rows to compute; all nodes of a stage share it."""
        return self.nodes[0].guard

    @property
    def sources(self) -> tuple[Value, ...]:
        """The inputs of the stage from other stages."""
        own = self.all_nodes
        return tuple(value for node in own for value in node.sources if value.node not in own)


def group_stages(graph: Graph, nodes: Iterable[Node], results: AbstractSet[Value]) -> tuple[Stage, ...]:
    """Group the nodes of the host into stages, with as few sample stages as the dependencies allow.

    Args:
        graph: The definition.
        nodes: The nodes of the host, in topological order.
        results: The values that the host hands over.
    """
    hosted = list(nodes)
    cached = [_cached_stage(graph, node, hosted, results) for node in hosted if isinstance(node.operator, SampleCache)]
    inside = {node for stage in cached for node in stage.all_nodes}
    rest = [node for node in hosted if node not in inside]
    return _in_order([*cached, *_initial_stages(graph, rest, results)])


def flat_stages(stages: Iterable[Stage]) -> Iterator[Stage]:
    """Yield stages, each after its inner stages."""
    for stage in stages:
        yield from (*stage.inner, stage)


def _cached_stage(graph: Graph, cache: Node, nodes: Sequence[Node], results: AbstractSet[Value]) -> Stage:
    """Return the stage of a cache: the nodes that need not be computed for samples that it has.

    Args:
        graph: The definition.
        cache: Node of a `SampleCache`.
        nodes: The nodes of the host, in topological order.
        results: The values that the host hands over.

    Raises:
        DefinitionError: The definition uses a value that exists only in some rows.
    """
    inside = set(upstream_nodes([cache])) - {cache}
    for node in nodes:
        # A few numbers, such as the size of an image, take less room than the image from which they follow.
        above = [value.node for value in node.sources]
        small = all(spec.dense and spec.nbytes <= _FEW_BYTES for spec in node.specs)
        if above and small and inside.issuperset(above) and follows_from_inputs(node):
            inside.add(node)
    outside = [node for node in nodes if node not in inside]
    used = dict.fromkeys(value for node in outside for value in node.sources if value.node in inside)
    stored = tuple(used | dict.fromkeys(value for value in results if value.node in inside))
    for value in stored:
        if value.node.guard is not None:
            raise DefinitionError(
                f"{value} was made in a branch of a condition before a cache, and is used behind it",
                given=f"made at {value.node.where}",
                fix="decide the condition behind the cache",
                where=cache.where,
            )
    inner = _in_order(_initial_stages(graph, [node for node in nodes if node in inside], {*stored, *results}))
    return Stage((cache,), StageKind.CACHE, inner, stored)


def _in_order(todo: list[Stage]) -> tuple[Stage, ...]:
    """Order stages by their dependencies, and join sample stages."""
    done: set[Node] = set()
    ordered: list[Stage] = []
    while todo:
        ready = [stage for stage in todo if all(value.node in done for value in stage.sources)]
        together = [stage for stage in ready if stage.way is not StageKind.SAMPLE]
        # Sample stages run last, so that they contain as many nodes as possible.
        if not together:
            run: list[Node] = []
            guard = ready[0].guard
            # In topological order, so that a node joins after its inputs.
            for stage in todo:
                if stage.way is not StageKind.SAMPLE or stage.guard != guard:
                    continue
                if all(v.node in done or v.node in run for v in stage.sources):
                    run += stage.nodes
            together = [Stage(tuple(run), StageKind.SAMPLE)]
        ordered += together
        done.update(node for stage in together for node in stage.all_nodes)
        todo = [stage for stage in todo if stage.nodes[-1] not in done]
    return tuple(ordered)


def fusion_groups(
    graph: Graph, nodes: Iterable[Node], results: AbstractSet[Value], *, device: bool = False
) -> list[tuple[Node, ...]]:
    """Group fusible nodes; a group ends where another node or the caller needs a value.

    On the device, either the host or the program describes a whole group. Nodes on scalars are in no group: another
    kernel computes them.

    Args:
        graph: The definition.
        nodes: The nodes of one side, in topological order.
        results: The values that must be computed for themselves.
        device: True for the device program.
    """
    ending: dict[Node, list[Node]] = {}
    for node in nodes:
        operator = node.operator
        if not isinstance(operator, FusibleOperator) or not node.inputs[0].spec.shape:
            continue
        value = node.inputs[0]
        before = ending.get(value.node)
        ending[node] = [node]
        if (
            before is None
            or operator.starts_group
            or cast(FusibleOperator, value.node.operator).fusion_group is not operator.fusion_group
        ):
            continue
        # Nodes with different guards compute different rows.
        if node.guard != value.node.guard or (
            device and needs_host_description(node) != needs_host_description(value.node)
        ):
            continue
        # Used once, and by this node only: the value need not exist outside of the group.
        if value not in results and graph.consumers[value] == (node,) and node.sources.count(value) == 1:
            del ending[value.node]
            ending[node] = [*before, node]
    return [tuple(group) for group in ending.values()]


def _initial_stages(graph: Graph, nodes: Iterable[Node], results: AbstractSet[Value]) -> list[Stage]:
    """Return a stage per fused group and per other node, in topological order of their last nodes."""
    todo = list(nodes)
    groups = {node: group for group in fusion_groups(graph, todo, results) for node in group}
    stages: list[Stage] = []
    for node in todo:
        group = groups.get(node, (node,))
        if node is group[-1]:
            stages.append(Stage(group, StageKind.CHAIN if len(group) > 1 else _way(node)))
    return stages


_WAYS: Mapping[type, StageKind] = {
    Reader: StageKind.READ,
    StreamInput: StageKind.FEED,
    RowOperator: StageKind.ROWS,
    HostDescription: StageKind.DESCRIBE,
    WholeBatchKernel: StageKind.WHOLE_BATCH,
    BranchSelect: StageKind.SELECT,
}


def _way(node: Node) -> StageKind:
    """Return the way to compute a node that is not fused with others."""
    operator = node.operator
    specs = [value.spec for value in node.sources] + list(node.specs)
    for kind, way in _WAYS.items():
        if isinstance(operator, kind):
            return way
    # A batch kernel works on one array, unless it accepts lists.
    if isinstance(operator, BatchKernel) and (operator.accepts_ragged or all(spec.dense for spec in specs)):
        return StageKind.BATCH
    return StageKind.CHAIN if isinstance(operator, FusibleOperator) else StageKind.SAMPLE
