"""The order of the host's work: which nodes are computed together, and how."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import cast

from penstock.graph.ir.branch_operators import BranchSelect
from penstock.graph.ir.fusion import FusibleOperator
from penstock.graph.ir.node import Graph, Node, Value
from penstock.graph.ir.operator import BatchKernel, Reader, StreamInput, WholeBatchKernel
from penstock.plan.engine_operators import HostDescription, RowOperator, needs_host_description


class StageKind(Enum):
    """How a stage is computed."""

    READ = "read"
    """A reader: many samples by index."""
    FEED = "feed"
    """What a stream gave for the batch."""
    ROWS = "rows"
    """From nothing but the coordinates of the rows."""
    BATCH = "batch"
    """One batch kernel."""
    CHAIN = "chain"
    """Several operators of one family, in one visit to the data."""
    SAMPLE = "sample"
    """Several nodes, sample by sample: a sample passes all of them while it is in the cache."""
    DESCRIBE = "describe"
    """The numbers of a chain that the device program computes."""
    WHOLE_BATCH = "whole batch"
    """One kernel that needs all samples of the batch."""
    SELECT = "select"
    """The rows of several branches, put together."""


@dataclass(frozen=True)
class Stage:
    """Nodes that are computed together.

    Args:
        nodes: in topological order.
        way: how.
    """

    nodes: tuple[Node, ...]
    way: StageKind

    @property
    def guard(self) -> Value | None:
        """What says for which rows they are computed; all nodes of a stage have the same."""
        return self.nodes[0].guard

    @property
    def sources(self) -> tuple[Value, ...]:
        """What they compute from and do not make themselves."""
        return tuple(value for node in self.nodes for value in node.sources if value.node not in self.nodes)


def group_stages(graph: Graph, nodes: Iterable[Node], results: AbstractSet[Value]) -> tuple[Stage, ...]:
    """The host's nodes as stages, as few sample stages as their dependencies allow.

    Args:
        graph: the definition.
        nodes: those that run on the host, in topological order.
        results: the values that the host hands over.
    """
    todo = _alone_or_chained(graph, nodes, results)
    done: set[Node] = set()
    ordered: list[Stage] = []
    while todo:
        ready = [stage for stage in todo if all(value.node in done for value in stage.sources)]
        together = [stage for stage in ready if stage.way is not StageKind.SAMPLE]
        if together:
            ordered += together
            done.update(node for stage in together for node in stage.nodes)
        else:
            run: list[Node] = []
            guard = ready[0].guard
            for stage in todo:  # in topological order: a node whose inputs are in the run joins it
                if stage.way is not StageKind.SAMPLE or stage.guard != guard:
                    continue
                if all(v.node in done or v.node in run for v in stage.sources):
                    run += stage.nodes
            ordered.append(Stage(tuple(run), StageKind.SAMPLE))
            done.update(run)
        todo = [stage for stage in todo if stage.nodes[-1] not in done]
    return tuple(ordered)


def fusion_groups(
    graph: Graph, nodes: Iterable[Node], results: AbstractSet[Value], *, device: bool = False
) -> list[tuple[Node, ...]]:
    """The nodes of chain kernels, in chains as long as nobody else needs what lies between.

    On the device, a chain is described by the host or in the program, as a whole. Scalars stand in none: what takes
    them has another kernel.

    Args:
        graph: the definition.
        nodes: those of one place, in topological order.
        results: the values that are needed as they are.
        device: whether the place is the device program.
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
        if node.guard != value.node.guard or (
            device and needs_host_description(node) != needs_host_description(value.node)
        ):
            continue
        if value not in results and graph.consumers[value] == (node,) and node.sources.count(value) == 1:
            del ending[value.node]
            ending[node] = [*before, node]
    return [tuple(chain) for chain in ending.values()]


def _alone_or_chained(graph: Graph, nodes: Iterable[Node], results: AbstractSet[Value]) -> list[Stage]:
    """Each node as a stage of its own, or of its chain, in topological order of what they end with."""
    todo = list(nodes)
    chained = {node: chain for chain in fusion_groups(graph, todo, results) for node in chain}
    found: list[Stage] = []
    for node in todo:
        chain = chained.get(node, (node,))
        if node is not chain[-1]:
            continue
        found.append(Stage(chain, StageKind.CHAIN) if len(chain) > 1 else Stage(chain, _way(node)))
    return found


def _way(node: Node) -> StageKind:
    """How a node is computed that stands in no chain with others."""
    operator = node.operator
    specs = [value.spec for value in node.sources] + list(node.specs)
    if isinstance(operator, Reader):
        return StageKind.READ
    if isinstance(operator, StreamInput):
        return StageKind.FEED
    if isinstance(operator, RowOperator):
        return StageKind.ROWS
    if isinstance(operator, HostDescription):
        return StageKind.DESCRIBE
    if isinstance(operator, WholeBatchKernel):
        return StageKind.WHOLE_BATCH
    if isinstance(operator, BranchSelect):
        return StageKind.SELECT
    if isinstance(operator, BatchKernel) and (operator.accepts_ragged or all(spec.dense for spec in specs)):
        return StageKind.BATCH
    return StageKind.CHAIN if isinstance(operator, FusibleOperator) else StageKind.SAMPLE
