"""What the processes of a job must agree on before the first batch, and how they learn of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from penstock.errors import UsageError
from penstock.graph.fingerprint import fingerprint
from penstock.graph.node import Graph
from penstock.graph.operator import Reader
from penstock.plan.merge import Facts
from penstock.plan.plan import Plan
from penstock.transfer.exchange import exchange
from penstock.transfer.layout import Layout


def agree(
    graphs: Sequence[Graph], layout: Layout, seed: int, rows: int, *, per_block: bool
) -> tuple[int, Sequence[Sequence[Facts]] | None]:
    """Check that all processes run the same definition, and take over what one of them decides.

    Args:
        graphs: one per block of rows that this process computes, or one for the whole batch.
        layout: how batches lie on the devices.
        seed: this process's.
        rows: how many a batch has.
        per_block: whether the graphs are those of blocks.

    Returns:
        The seed of all, which is that of the first process; and the facts of the readers of each block, in the order
        of the rows, or None where this process has all it needs.

    Raises:
        UsageError: the processes define different pipelines.
    """
    mine = {"definition": fingerprint(graphs[0]), "rows": rows, "per_block": per_block}
    if layout.processes <= 1:
        return seed, None
    facts = [[asdict(Facts.of(reader)) for reader in _readers(graph)] for graph in graphs] if per_block else []
    told = exchange(layout.all_devices, {"same": mine, "seed": seed, "shards": layout.shards, "facts": facts})
    _check_same([each["same"] for each in told], "define different pipelines")
    blocks: dict[int, Sequence[Facts]] = {}
    for each in told:
        for shard, readers in zip(each["shards"], each["facts"], strict=False):
            blocks[shard] = [Facts(**reader) for reader in readers]
    return told[0]["seed"], [blocks[shard] for shard in sorted(blocks)] or None


def agree_on_shapes(plan: Plan, layout: Layout) -> None:
    """Check that what the processes found in their first samples has the same dtypes and shapes.

    Raises:
        UsageError: it has not.
    """
    if layout.processes > 1:
        specs = [str(value.spec) for value in (*plan.results, *plan.graph.outputs)]
        _check_same(exchange(layout.all_devices, specs), "read samples of different shapes")


def _readers(graph: Graph) -> list[Reader]:
    return [node.operator for node in graph.readers if isinstance(node.operator, Reader)]


def _check_same(told: Sequence[Any], what: str) -> None:
    other = next((number for number, each in enumerate(told) if each != told[0]), None)
    if other is not None:
        raise UsageError(
            f"the processes of this job {what}",
            given=f"{told[other]} in process {other}",
            expected=f"{told[0]}, as in process 0",
            fix="run the same program with the same arguments in all of them",
        )
