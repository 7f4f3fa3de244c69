"""The order of the host's work: runs of nodes that go batch by batch, or sample by sample, and what is fused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from penstock.graph.node import Graph, Node, Value
from penstock.graph.operator import BatchKernel, LazyKernel, Reader, SampleKernel, WholeBatchKernel
from penstock.plan.rows import RowOperator

_LARGE = 1 << 14
"""Bytes of a dense sample from which a pass over it costs more than a call; smaller ones are better off in batches."""


@dataclass(frozen=True)
class ReadStage:
    """A reader: whole batches by index."""

    node: Node


@dataclass(frozen=True)
class RowStage:
    """A value that comes from the coordinates of the rows."""

    node: Node
    operator: RowOperator


@dataclass(frozen=True)
class BatchStage:
    """One batch kernel on dense values."""

    node: Node


@dataclass(frozen=True)
class WholeBatchStage:
    """One kernel that needs all samples of the batch."""

    node: Node


@dataclass(frozen=True)
class SampleStage:
    """Several nodes, sample by sample: a sample passes all of them while it is in the cache.

    Args:
        nodes: in topological order.
        fused: the values that their producer only describes and their one consumer computes, with that consumer.
    """

    nodes: tuple[Node, ...]
    fused: Mapping[Value, Node]


Stage = ReadStage | RowStage | BatchStage | WholeBatchStage | SampleStage


def stages(graph: Graph, nodes: Iterable[Node], results: AbstractSet[Value]) -> tuple[Stage, ...]:
    """The host's nodes as stages, as few sample stages as their dependencies allow.

    Args:
        graph: the definition.
        nodes: those that run on the host, in topological order.
        results: the values that the host hands over.
    """
    todo = list(nodes)
    lazy = _lazy(graph, todo, results)
    finishing = set(lazy.values())
    by_sample = {node for node in todo if _by_sample(node) or node in finishing}
    done: set[Node] = set()
    result: list[Stage] = []
    while todo:
        ready = [node for node in todo if all(value.node in done for value in node.sources)]
        batched = [node for node in ready if node not in by_sample]
        if batched:
            result += [_stage(node) for node in batched]
            done.update(batched)
        else:
            run: list[Node] = []
            for node in todo:  # in topological order: a node whose inputs are in the run joins it
                if node in by_sample and all(v.node in done or v.node in run for v in node.sources):
                    run.append(node)
            fused = {value: user for value, user in lazy.items() if value.node in run and user in run}
            result.append(SampleStage(tuple(run), fused))
            done.update(run)
        todo = [node for node in todo if node not in done]
    return tuple(result)


def _lazy(graph: Graph, nodes: Iterable[Node], results: AbstractSet[Value]) -> dict[Value, Node]:
    """The values that could stay unfinished, with the consumer that can finish them: their only one."""
    found: dict[Value, Node] = {}
    by_sample: set[Node] = set()
    for node in nodes:
        if _by_sample(node):
            by_sample.add(node)
        value = node.inputs[0] if node.inputs else None
        if value is None or value in results or value.node not in by_sample or graph.consumers[value] != (node,):
            continue
        giver, taker = value.node.operator, node.operator
        if node.sources.count(value) > 1 or not isinstance(giver, LazyKernel) or not isinstance(taker, SampleKernel):
            continue
        if not _by_sample(node) and value.spec.nbytes < _LARGE:
            continue
        if giver.gives is not None and giver.gives is taker.takes and len(value.node.specs) == 1:
            found[value] = node
            by_sample.add(node)
    return found


def _stage(node: Node) -> Stage:
    if isinstance(node.operator, Reader):
        return ReadStage(node)
    if isinstance(node.operator, WholeBatchKernel):
        return WholeBatchStage(node)
    return RowStage(node, node.operator) if isinstance(node.operator, RowOperator) else BatchStage(node)


def _by_sample(node: Node) -> bool:
    if isinstance(node.operator, Reader | RowOperator | WholeBatchKernel):
        return False
    specs = [value.spec for value in node.sources] + list(node.specs)
    return not (isinstance(node.operator, BatchKernel) and all(spec.dense for spec in specs))
