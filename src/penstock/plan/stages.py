"""The order of the host's work: runs of nodes that go batch by batch, or sample by sample."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.graph.node import Node
from penstock.graph.operator import BatchKernel, Reader
from penstock.plan.rows import RowOperator


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
class SampleStage:
    """Several nodes, sample by sample: a sample passes all of them while it is in the cache."""

    nodes: tuple[Node, ...]


Stage = ReadStage | RowStage | BatchStage | SampleStage


def stages(nodes: Iterable[Node]) -> tuple[Stage, ...]:
    """The host's nodes as stages, as few sample stages as their dependencies allow."""
    todo = list(nodes)
    done: set[Node] = set()
    result: list[Stage] = []
    while todo:
        ready = [node for node in todo if all(value.node in done for value in node.sources)]
        batched = [node for node in ready if not _by_sample(node)]
        if batched:
            result += [_stage(node) for node in batched]
            done.update(batched)
        else:
            run: list[Node] = []
            for node in todo:  # in topological order: a node whose inputs are in the run joins it
                if _by_sample(node) and all(v.node in done or v.node in run for v in node.sources):
                    run.append(node)
            result.append(SampleStage(tuple(run)))
            done.update(run)
        todo = [node for node in todo if node not in done]
    return tuple(result)


def _stage(node: Node) -> Stage:
    if isinstance(node.operator, Reader):
        return ReadStage(node)
    return RowStage(node, node.operator) if isinstance(node.operator, RowOperator) else BatchStage(node)


def _by_sample(node: Node) -> bool:
    if isinstance(node.operator, Reader | RowOperator):
        return False
    specs = [value.spec for value in node.sources] + list(node.specs)
    return not (isinstance(node.operator, BatchKernel) and all(spec.dense for spec in specs))
